"""`/v1/status`: whether the money adds up, for everybody to see."""
