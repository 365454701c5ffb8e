"""Local stand-ins for the chains, for tests and demonstrations. Production never imports it."""
