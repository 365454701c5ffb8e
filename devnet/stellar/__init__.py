"""The Stellar half of the development network: one process that keeps ledgers and speaks RPC.

It is a stand-in, not a Stellar node: one party closes the ledgers, and the contracts are Python
state machines behind real XDR. It answers on the passphrase of a local network only, so nothing
that is configured for the public network or the test network can mistake it for theirs.

By the network's own rules, with its result codes: thresholds and signatures, sequence numbers and
preconditions, the queue with its one transaction a source, fee bumps and replacement at ten times
the rate, reserves and who sponsors them, authorisation trees, footprints, refunds. Contract calls
are tried, applied and refused by one code path.

Ledgers are those of Protocol 28, 29 or 30, and `devnet_upgrade` changes the protocol of a running
chain. The ledger that applies an upgrade names the new version in the old format. Every later one
of Protocol 30 has a close time in milliseconds (CAP-88), so that several may close in one second,
and the token contract takes a muxed contract as receiver of `transfer` and `mint` (CAP-84).

Otherwise than there: nothing is metered but bytes and entries (`metering`), entries never expire,
so that nothing is ever restored, there is no Wasm to upload, and operations that are not in
`operations.CLASSIC` (offers, pools, claimable balances, revoked sponsorships) are opNOT_SUPPORTED.
Of later protocols than 23 there is no more than the paragraph above says: no credentials of CAP-71,
no host functions of CAP-87.
"""
