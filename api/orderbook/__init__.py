"""`/api/v1/orderbook` and what belongs to it: offers, depth, providers, orders. Public, read-only.

Every answer is as of one ledger, which `X-Ledger` names; the clock of statuses and balances is that
ledger's close time, never this machine's.
"""
