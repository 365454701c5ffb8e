"""Sign and submit the transactions of one account."""
