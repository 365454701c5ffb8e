"""`/api/v1/stream`: the order book as it changes, ledger by ledger, over a WebSocket."""
