"""Clients of Circle's attestation service (Iris) and LayerZero Scan."""
