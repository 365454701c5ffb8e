"""Services beside the chains: Circle Iris, LayerZero Scan."""
