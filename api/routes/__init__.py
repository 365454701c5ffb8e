"""`/v1/routes`: what can be transferred from where to where."""
