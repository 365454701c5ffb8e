"""Commands of `python -m indexer`."""
