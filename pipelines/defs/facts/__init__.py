"""Facts of each chain, and attestations."""
