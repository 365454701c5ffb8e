"""`/api/v1/stream`: changes of the order book, ledger by ledger, over a WebSocket."""
