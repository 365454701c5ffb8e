"""Limits that the api and the relay both apply to owners."""
