"""`/v1/quotes`: prices of transfers, valid for some minutes."""
