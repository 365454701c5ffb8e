"""Adapters to chain nodes: their shapes in, ours out."""
