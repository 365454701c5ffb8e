"""The public HTTP interface: parse, read, respond. Nothing is decided here."""
