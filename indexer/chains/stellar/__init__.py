"""Stellar: RPC nodes and the data lake."""
