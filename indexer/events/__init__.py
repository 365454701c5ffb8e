"""Typed events: frozen dataclasses, one a contract event, named as the contracts name them."""
