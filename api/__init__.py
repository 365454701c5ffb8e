"""The public HTTP interface: parse, ask, shape. Nothing is decided or stored here."""
