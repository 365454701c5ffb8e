"""`/api/v1/orderbook`, `/providers`, `/intents`: offers, depth, providers, orders. Public reads.

Every answer is as of one ledger, which `X-Ledger` names. Statuses and balances use that ledger's
close time, never this machine's clock.
"""
