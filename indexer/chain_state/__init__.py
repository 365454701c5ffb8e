"""State of the chains read on request, for quotes and for what owners sign."""
