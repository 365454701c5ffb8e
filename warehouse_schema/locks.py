"""Every lock of the warehouse, so that no two things are guarded by one number.

Three kinds, by who can take them (why: `warehouse_schema.lock_tables`):

- leases (`warehouse_schema.leases`), held by processes of the indexer or the relay that renew them;
- rows of `locks.rows` (`indexer.facts.row_locks`), held by the indexer until commit; and one of
  `relay.leases`, held by the relay until commit;
- advisory locks, pairs of 32-bit numbers: held until commit, and open to every role. Only what the
  api itself decides may wait for one.

Locks of a name (`hashtextextended` of a text, a single number) belong to what makes databases:
`isthmus migrate` and `isthmus <database>` to `migrate.py`, `<database>` to `embedded/launcher.py`,
`isthmus dagster` to `pipelines/storage.py`.
"""

# Leases: a number of these, and a name.

FOLLOWER = 7_040
"""The right to write a chain's newest facts and its cursor. Name: the chain. Held by the follower
for as long as it follows."""

BACKFILL = 7_042
"""The right to replace a chain's final facts. Name: the chain. Held by a backfill in one
process, and by a swap of a redecode, of every chain. Transactions of a backfill in several
processes share it."""

POLLER = 7_043
"""The right to write what services say of messages. Held by the process that polls."""

DAYS = 7_044
"""The right to write a family of daily figures. Name: the family's. Held by the process that
computes days."""

RELAY = 7_046
"""The right to sign for an account: number its transactions, write what it sends. Name: the chain,
a space and the account. Held by the relay."""

WEBHOOKS = 7_049
"""The right to post to webhooks. Held by the process that writes what came of it."""

# Rows: a number of these, and names.

MOVEMENT = 7_041
"""The right to refold a movement. Name: its group key. All of them at once for many."""

STAGE = 7_052
"""The right to refold a transfer and write its stage. Name: its id. Taken after rows of movements
and after `TRANSFER`."""

TRANSFER_EVENTS = 7_048
"""The right to number an owner's rows of `projections.transfer_events`. Name: the account. Numbers
become visible in their order; taken after rows of stages."""

STREAM = 7_051
"""Under it `projections.stream_events` get their ids, in the order in which they are committed. One
name, the empty one."""

# A row of `relay.leases`, locked until commit.

SPONSORING = 7_050
"""The right to decide which onboarding is paid for, so that budgets hold. Name: empty. Held by the
relay."""

# Advisory locks.

TRANSFER = 7_045
"""The right to decide about a transfer: to cancel it, to take a submission, to sign for it, to let
it expire. Second: `hashtext` of its id. Of several, taken in order of their numbers. A follower
takes none: what it writes of a transfer is folded again after whatever is decided meanwhile."""

OWNER = 7_047
"""The right to start a transfer of an owner, so that limits hold. Second: `hashtext` of the owner's
account. Taken before locks of transfers."""
