"""Token movements: ERC-20 transfers and Stellar asset events (CAP-67)."""
