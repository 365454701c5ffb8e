"""Settings, networks, routes, and where the warehouse is."""
