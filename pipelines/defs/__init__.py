"""The definitions, one folder or file a subject; `pipelines.definitions` merges them."""
