"""`access`: who was let in, and who may not be any more. The api alone reads and writes it.

No secrets: identifiers of challenges and tokens, never a signature or a token.
"""

from sqlalchemy import BigInteger, Column, Integer, Table
from sqlalchemy import text as sql

from warehouse_schema.columns import moment, recorded, text
from warehouse_schema.metadata import ACCESS, metadata

used_challenges = Table(
    "used_challenges",
    metadata,
    text(
        "tx_hash", "Transaction hash of the SEP-10 challenge: it covers the nonce", primary_key=True
    ),
    text("account", "Stellar account that signed in with it"),
    moment("expires_at", "When the challenge itself expires; the row may go then", index=True),
    schema=ACCESS,
    comment="Challenges that were turned into a token; none is a second time",
)

subjects = Table(
    "subjects",
    metadata,
    text("issuer", "`iss` of the identity provider's tokens", primary_key=True),
    text("subject", "`sub` of its tokens", primary_key=True),
    text("account", "Stellar account that it acts for, bound at first use and never moved"),
    recorded("bound_at"),
    recorded(
        "confirmed_at",
        "When the provider last said that the account is still theirs, by the database "
        "clock; null since it said that it is not",
        nullable=True,
    ),
    schema=ACCESS,
    comment="Users of the identity provider, each bound to one Stellar account",
)

rate_counts = Table(
    "rate_counts",
    metadata,
    text("key", "Budget, and the address or the account that it is of", primary_key=True),
    Column("hits", Integer, nullable=False, comment="Requests in the window"),
    moment(
        "ends_at", "When the window ends, by the database clock; the row may go then", index=True
    ),
    schema=ACCESS,
    # Counting waits for no disk; what a crash forgets is a minute's worth of requests.
    prefixes=["UNLOGGED"],
    comment="Requests of clients in the window that is on, where processes count together",
)

revoked_tokens = Table(
    "revoked_tokens",
    metadata,
    text("jti", "Id of the token", primary_key=True),
    moment("expires_at", "When the token itself expires; the row may go then", index=True),
    recorded("revoked_at"),
    Column(
        "revoked_by",
        BigInteger,
        nullable=False,
        server_default=sql("pg_current_xact_id()::text::bigint"),
        index=True,
        comment="Transaction that wrote the row: a process reads what it has not seen",
    ),
    schema=ACCESS,
    comment="Tokens of ours that were logged out before they expired",
)
