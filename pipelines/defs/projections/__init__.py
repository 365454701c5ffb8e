"""Projections: rebuilds, transfers, reconciliation."""
