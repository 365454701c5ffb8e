"""Relay jobs and their sources."""
