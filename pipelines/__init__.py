"""When, not how: Dagster definitions over the indexer. No chain library and no SQL in here."""
