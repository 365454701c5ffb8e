"""Every advisory lock of the warehouse, so that no two things are guarded by one number.

Whoever takes one takes its number from here; a test finds those who do not. Postgres has two
spaces of them, which do not meet: pairs of 32-bit numbers, and single 64-bit numbers.

Locks of a name (`hashtextextended` of a text, a single number) belong to what makes databases:
`isthmus migrate` and `isthmus <database>` to `migrate.py`, `<database>` to `embedded/launcher.py`.
"""

# Pairs: a number of these, and what of its kind is meant.

FOLLOWER = 7_040
"""The right to write a chain's newest facts and its cursor. Second: `hashtext` of the chain. Held
by the follower's session for as long as it follows."""

MOVEMENT = 7_041
"""The right to refold a movement. Second: `hashtext` of its group key. Held until commit. Alone, as
a single number, it stands for all movements at once: shared by who locks some, exclusive for many
of them."""

BACKFILL = 7_042
"""The right to replace a chain's final facts. Second: `hashtext` of the chain. Held by a backfill's
session while it writes, and by a swap of a revision, of every chain."""

POLLER = 7_043
"""The right to write what services say of messages. Second: 0. Held by the session that polls."""

DAYS = 7_044
"""The right to write a family of daily figures. Second: `hashtext` of its name. Held by the session
that computes days."""

TRANSFER = 7_045
"""The right to decide about a transfer: to cancel it, to take a submission, to sign for it, to let
it expire, to write its stage. Second: `hashtext` of its id. Held until commit, taken after locks of
movements and, of several, in order of their numbers."""

RELAY = 7_046
"""The right to sign for an account: number its transactions, write what it sends. Second:
`hashtext` of the chain, a space and the account. Held by the relay's session."""

OWNER = 7_047
"""The right to start a transfer of an owner, so that limits hold. Second: `hashtext` of the owner's
account. Held until commit, taken before locks of transfers."""

TOLD = 7_048
"""The right to number what an owner is told of transfers. Second: `hashtext` of the account. Held
until commit, so that numbers become visible in their order; taken after locks of transfers and, of
several, in order of their numbers."""

WEBHOOKS = 7_049
"""The right to post to webhooks. Second: 0. Held by the session that writes what came of it."""

SPONSORING = 7_050
"""The right to decide which onboarding is paid for, so that budgets hold. Second: 0. Held until
commit."""

# Single numbers.

STREAM = 0x15_7457_0001
"""Under it `projections.stream_events` get their ids, in the order in which they are committed.
Held until commit."""
