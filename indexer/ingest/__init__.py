"""Ingestion: reads ranges, commits them with their projections, follows and repairs."""
