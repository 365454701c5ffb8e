"""The Stellar half of the development network: one process that keeps ledgers and speaks RPC.

It is a stand-in, not a Stellar node: one party closes the ledgers, and the contracts are Python
state machines behind real XDR. It answers on the passphrase of a local network only, so nothing
that is configured for the public network or the test network can mistake it for theirs.
"""
