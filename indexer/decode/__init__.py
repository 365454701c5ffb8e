"""Raw logs and contract events to typed events. Pure: no clock, no network, no database."""
