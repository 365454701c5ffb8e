"""USDC: Circle CCTP V2."""
