"""`/v1/quotes`: what a transfer costs, promised for some minutes."""
