"""Dagster's page behind a guard: host, origin, method and login are checked before Dagster is."""
