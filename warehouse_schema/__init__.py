"""The vocabulary of the warehouse: names, units, tables, and the Postgres they live in."""
