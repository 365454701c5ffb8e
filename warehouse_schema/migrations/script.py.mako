"""${message.capitalize()}."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    ${upgrades}
