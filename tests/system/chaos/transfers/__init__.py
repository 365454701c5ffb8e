"""`make chaos` for transfers: customers through the API while everything under them is killed."""
