"""The definitions, one folder or file a concern; `pipelines.definitions` puts them together."""
