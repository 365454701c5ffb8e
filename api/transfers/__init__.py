"""`/v1/transfers`: creation, state and cancellation."""
