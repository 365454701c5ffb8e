"""Deposit addresses: forwarders on EVM chains, made by our factory."""
