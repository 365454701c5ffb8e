"""`/v1/webhooks`: URLs that receive the events of owners' transfers, and their deliveries."""
