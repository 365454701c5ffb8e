"""Decodes raw events again beside the live tables, compares, swaps."""
