"""The market's contracts, Escrow and RailTerms: events and decoding."""
