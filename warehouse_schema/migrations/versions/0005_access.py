"""Access."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA access")
    op.execute(
        "COMMENT ON SCHEMA access IS 'Who was let in, and who may not be any more. Read and written by the api alone.'"
    )
    op.create_table(
        "rate_counts",
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="Budget, and the address or the account that it is of",
        ),
        sa.Column("hits", sa.Integer(), nullable=False, comment="Requests in the window"),
        sa.Column(
            "ends_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the window ends, by the database clock; the row may go then",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_counts")),
        schema="access",
        comment="Requests of clients in the window that is on, where processes count together",
        prefixes=["UNLOGGED"],
    )
    op.create_index(
        op.f("ix_rate_counts_ends_at"), "rate_counts", ["ends_at"], unique=False, schema="access"
    )
    op.create_table(
        "revoked_tokens",
        sa.Column("jti", sa.Text(), nullable=False, comment="Id of the token"),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the token itself expires; the row may go then",
        ),
        sa.Column(
            "revoked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("jti", name=op.f("pk_revoked_tokens")),
        schema="access",
        comment="Tokens of ours that were logged out before they expired",
    )
    op.create_index(
        op.f("ix_revoked_tokens_expires_at"),
        "revoked_tokens",
        ["expires_at"],
        unique=False,
        schema="access",
    )
    op.create_table(
        "subjects",
        sa.Column(
            "issuer", sa.Text(), nullable=False, comment="`iss` of the identity provider's tokens"
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="`sub` of its tokens"),
        sa.Column(
            "account",
            sa.Text(),
            nullable=False,
            comment="Stellar account that it acts for, bound at first use and never moved",
        ),
        sa.Column(
            "bound_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "confirmed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
            comment="When the provider last said that the account is still theirs, by the database clock; null since it said that it is not",
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_subjects")),
        schema="access",
        comment="Users of the identity provider, each bound to one Stellar account",
    )
    op.create_table(
        "used_challenges",
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash of the SEP-10 challenge: it covers the nonce",
        ),
        sa.Column(
            "account", sa.Text(), nullable=False, comment="Stellar account that signed in with it"
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the challenge itself expires; the row may go then",
        ),
        sa.PrimaryKeyConstraint("tx_hash", name=op.f("pk_used_challenges")),
        schema="access",
        comment="Challenges that were turned into a token; none is a second time",
    )
    op.create_index(
        op.f("ix_used_challenges_expires_at"),
        "used_challenges",
        ["expires_at"],
        unique=False,
        schema="access",
    )
