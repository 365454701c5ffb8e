"""Backfills, daily figures and exports on several workers, and what they survive; `make engine`."""
