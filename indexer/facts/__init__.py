"""What the chains said: reading a range, keeping it, taking it back when a chain does."""
