"""One folder for each mechanism: its events, decoding and messages."""
