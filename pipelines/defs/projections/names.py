"""What the projections are called in Dagster."""

import dagster as dg

ORDER_BOOK = dg.AssetKey(["projections", "order_book"])
"""Offers, orders, providers and depth: folded from the Stellar chain alone."""

TRANSFER_PROGRESS = dg.AssetKey(["projections", "transfer_progress"])
"""CCTP and OFT movements: folded from every chain."""

POOL = "writes_projections"
"""The pool, of one place, of what writes projections anew."""
