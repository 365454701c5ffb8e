"""`/v1/webhooks`: where owners want to be told of their transfers, and what was told there."""
