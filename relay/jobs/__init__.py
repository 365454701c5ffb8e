"""What the relay has to send, and where such work comes from."""
