"""The API under whatever one can send it: see `__main__.py`."""
