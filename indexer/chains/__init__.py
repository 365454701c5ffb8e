"""Adapters to chains: EVM, Stellar, and services beside them."""
