"""`/v1/routes`: routes of transfers, and which chains are available."""
