"""What the projections are called in Dagster."""

import dagster as dg

ORDER_BOOK = dg.AssetKey(["projections", "order_book"])
"""Offers, orders, providers and depth: folded from the Stellar chain alone."""

MOVEMENTS = dg.AssetKey(["projections", "movements"])
"""CCTP and OFT movements: folded from every chain."""

TRANSFER_STATES = dg.AssetKey(["projections", "transfer_states"])
"""Where each transfer is: folded from every chain, from requests of clients and from the relay."""

KEEP_JOB = "keep_transfers"
KEEP_POOL = "keeps_transfers"
"""The pool, of one place, of what keeps transfers up to their clients and the clock."""

RECONCILIATION = dg.AssetKey(["projections", "reconciliation"])
"""Whether the money adds up."""

POOL = "writes_projections"
"""The pool, of one place, of what writes projections anew."""
