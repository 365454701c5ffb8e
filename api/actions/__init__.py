"""`/v1/transfers/{id}/actions` and `/submissions`: what an owner can do, and what was submitted."""
