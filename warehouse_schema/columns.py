"""One column type for each name of `identifiers`, so that a table reads as its meaning."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Date,
    DateTime,
    Integer,
    LargeBinary,
    Numeric,
    PrimaryKeyConstraint,
    Text,
    func,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator


class BaseUnitsType(TypeDecorator[int]):
    """A whole number that stays whole: `numeric(78,0)` holds any uint256 and any i128.

    Python sees `int`; psycopg would hand out `Decimal`.
    """

    impl = Numeric(78, 0)
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Any) -> int | None:
        """Refuse anything but an int: a float or a Decimal here is a bug upstream."""
        if value is not None and type(value) is not int:
            raise TypeError(f"base units are int, got {type(value).__name__}")
        return value

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], int | None]:
        """`Decimal` to `int`; exact, because the column has no scale."""
        return _whole


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def chain(comment: str = "CAIP-2 chain id", **options: Any) -> Column[str]:
    """`chain` column."""
    return Column("chain", Text, nullable=False, comment=comment, **options)


def height(
    name: str = "height", comment: str = "Block number or ledger sequence", **options: Any
) -> Column[int]:
    """Block number or ledger sequence."""
    return Column(name, BigInteger, comment=comment, **{"nullable": False, **options})


def seconds(name: str, comment: str, **options: Any) -> Column[int]:
    """Unix seconds, as chains carry them."""
    return Column(name, BigInteger, comment=comment, **{"nullable": False, **options})


def amount(name: str, comment: str, **options: Any) -> Column[int]:
    """Base units."""
    return Column(name, BaseUnitsType, comment=comment, **{"nullable": False, **options})


def text(name: str, comment: str, **options: Any) -> Column[str]:
    """Hashes, addresses, words."""
    return Column(name, Text, comment=comment, **{"nullable": False, **options})


def blob(name: str, comment: str, **options: Any) -> Column[bytes]:
    """Raw bytes as the chain gave them."""
    return Column(name, LargeBinary, comment=comment, **{"nullable": False, **options})


def number(name: str, comment: str, **options: Any) -> Column[int]:
    """A 64-bit count, nonce or sequence number."""
    return Column(name, BigInteger, comment=comment, **{"nullable": False, **options})


def small(name: str, comment: str, **options: Any) -> Column[int]:
    """A 32-bit number."""
    return Column(name, Integer, comment=comment, **{"nullable": False, **options})


def moment(name: str, comment: str, **options: Any) -> Column[datetime]:
    """A time of our clock, with its zone; times of chains are `seconds`."""
    kind = DateTime(timezone=True)
    return Column(name, kind, comment=comment, **{"nullable": False, **options})


def recorded(name: str, comment: str = "Database clock", **options: Any) -> Column[datetime]:
    """When something was written, by the database's clock."""
    return moment(name, comment, server_default=func.now(), **options)


def flag(name: str, comment: str, **options: Any) -> Column[bool]:
    """True or false."""
    return Column(name, Boolean, comment=comment, **{"nullable": False, **options})


def words(name: str, comment: str, *, as_tuple: bool = False, **options: Any) -> Column[Any]:
    """An array of texts; rows have a list, or a tuple."""
    kind = ARRAY(Text, as_tuple=as_tuple)
    return Column(name, kind, comment=comment, **{"nullable": False, **options})


def json(name: str, comment: str, **options: Any) -> Column[Any]:
    """JSON; in a nullable column None is SQL's null."""
    kind = JSONB(none_as_null=options.get("nullable", False))
    return Column(name, kind, comment=comment, **{"nullable": False, **options})


def day(comment: str = "UTC day, by block or ledger time") -> Column[date]:
    """`day` column."""
    return Column("day", Date, nullable=False, comment=comment)


def provenance() -> list[SchemaItem]:
    """The columns of `indexer.chains.events.Provenance`, and their key.

    A stored block has one hash (`facts.blocks`), so its height says the same in a quarter of
    the index, and rows are read in the order of this key.
    """
    return [
        chain(),
        height(),
        text("block_hash", "Hash of the block or ledger"),
        text("tx_hash", "Transaction hash: 0x-prefixed on EVM, bare hex on Stellar"),
        number("position", "Order within the block; log index on EVM, packed event id on Stellar"),
        seconds("block_time", "Block timestamp or ledger close time, unix seconds"),
        PrimaryKeyConstraint("chain", "height", "position"),
    ]


def day_of(name: str) -> ColumnElement[date]:
    """The UTC day of a column of unix seconds, as the views compute it and indexes have it.

    Plain arithmetic, so that no setting of a session has a say in where a day begins. Written as
    Postgres prints it, by which Alembic compares.
    """
    return literal_column(f"('1970-01-01'::date + ({name} / 86400)::integer)", Date)


def last_16_bytes(name: str) -> ColumnElement[bytes]:
    """The last 16 bytes of a column of bytes, all of it if it is shorter: where labels stand.

    As `day_of`: written as Postgres prints it.
    """
    return literal_column(f'"substring"({name}, octet_length({name}) - 15)', LargeBinary)
