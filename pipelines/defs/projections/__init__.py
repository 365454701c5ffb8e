"""Projections: what the followers keep folded, and how to fold it anew."""
