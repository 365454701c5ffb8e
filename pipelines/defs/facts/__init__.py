"""Facts: a factory a chain."""
