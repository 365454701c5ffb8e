"""The warehouse's history: one numbered revision a step, run by `warehouse_schema.migrate`."""
