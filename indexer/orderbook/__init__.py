"""Projection: offers, orders, providers and market depth."""
