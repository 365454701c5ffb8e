"""USDT0: LayerZero V2 OFT and endpoint."""
