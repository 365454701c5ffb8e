"""Stellar XDR: skipping, walking and proving ledgers, reading values."""
