"""Prometheus metrics: the catalogue, the collectors of a process, the page that serves them."""
