"""The Stellar half of the development network: one process that keeps ledgers and speaks RPC.

It is a stand-in, not a Stellar node: one party closes the ledgers, and the contracts are Python
state machines behind real XDR. It answers on the passphrase of a local network only, so nothing
that is configured for the public network or the test network can mistake it for theirs.

By the network's own rules, with its result codes (protocol 23): thresholds and signatures, sequence
numbers and preconditions, the queue with its one transaction a source, fee bumps and replacement at
ten times the rate, reserves and who sponsors them, authorisation trees, footprints, refunds.
Contract calls are tried, applied and refused by one code path.

Otherwise than there: nothing is metered but bytes and entries (`metering`), entries never expire,
so that nothing is ever restored, there is no Wasm to upload, and operations that are not in
`operations.CLASSIC` (offers, pools, claimable balances, revoked sponsorships) are opNOT_SUPPORTED.
"""
