"""Senders: signing and broadcasting for one account."""
