"""`projections`, daily figures: one row per day that is over, folded from facts.

A day is a UTC day by block or ledger time. Amounts are base units; times are unix seconds.
"""

from sqlalchemy import Column, ForeignKeyConstraint, Identity, PrimaryKeyConstraint, Table

from warehouse_schema.columns import amount, chain, day, height, number, recorded, seconds, text
from warehouse_schema.metadata import PROJECTIONS, metadata

provider_days = Table(
    "provider_days",
    metadata,
    day(),
    text("provider", "Liquidity provider's Stellar address"),
    number("opened", "Orders opened with it on the day"),
    number("fulfilled", "Orders fulfilled on the day, whenever they were opened"),
    number("cancelled", "Orders cancelled on the day"),
    number("expired", "Orders that the ledger clock passed on the day"),
    amount("released", "Released by the fulfilled orders, gross of the fee, USDC 7 decimals"),
    amount("fee", "Protocol fees of the fulfilled orders, USDC 7 decimals"),
    number("fulfillment_seconds", "Sum over the fulfilled orders of seconds since their opening"),
    amount("deposited", "Deposited into escrow on the day, USDC 7 decimals"),
    amount("withdrawn", "Withdrawn from escrow on the day, USDC 7 decimals"),
    amount("available", "Available at the end of the day, USDC 7 decimals"),
    amount("locked", "Locked by active orders at the end of the day, USDC 7 decimals"),
    amount("locked_seconds", "Locked over time: USDC 7 decimals x seconds"),
    amount("escrow_seconds", "Available + locked over time: USDC 7 decimals x seconds"),
    PrimaryKeyConstraint("day", "provider"),
    schema=PROJECTIONS,
    comment="Each provider on each day that is over: orders and escrow. Folded from facts",
)

market_days = Table(
    "market_days",
    metadata,
    day(),
    text("direction", "onramp or offramp"),
    text("rail", "Payment rail"),
    text("currency", "ISO 4217 code"),
    number("opened", "Orders opened on the day"),
    amount("opened_amount", "Requested by them, USDC 7 decimals"),
    number("fulfilled", "Orders fulfilled on the day, whenever they were opened"),
    number("cancelled", "Orders cancelled on the day"),
    number("expired", "Orders that the ledger clock passed on the day"),
    amount("released", "Released by the fulfilled orders, gross of the fee, USDC 7 decimals"),
    amount("fee", "Protocol fees of the fulfilled orders, USDC 7 decimals"),
    amount("fiat", "Fiat that was released for, 7 decimals; null if absurd", nullable=True),
    number("partial", "Of the fulfilled, those that released less than requested"),
    number("manual", "Of the fulfilled, those released by hand, without a proof"),
    number("fulfillment_seconds", "Sum over the fulfilled orders of seconds since their opening"),
    PrimaryKeyConstraint("day", "direction", "rail", "currency"),
    schema=PROJECTIONS,
    comment="Each market on each day that is over and on which something happened in it",
)

route_days = Table(
    "route_days",
    metadata,
    day(),
    text("mechanism", "cctp (USDC) or oft (USDT0)"),
    text("source_chain", "CAIP-2 id; elsewhere when it is no chain of ours"),
    text("dest_chain", "CAIP-2 id; elsewhere when it is no chain of ours"),
    number("sent", "Movements sent on the day"),
    amount("amount_sent", "Sent, gross of fees, base units of the source chain"),
    number("delivered", "Movements delivered on the day"),
    amount("amount_delivered", "Delivered, base units of the destination chain"),
    amount(
        "fee",
        "Taken on the way, base units of the source chain: of what was delivered (cctp), "
        "of what was sent (oft)",
    ),
    PrimaryKeyConstraint("day", "mechanism", "source_chain", "dest_chain"),
    schema=PROJECTIONS,
    comment="Money moved between chains on each day that is over, by route",
)

days_done = Table(
    "days_done",
    metadata,
    text("figure", "book (provider_days, market_days) or routes (route_days)"),
    day(),
    number("version", "Counts the changes of the facts it was computed from, and their chains"),
    Column(
        "id",
        number("id", "").type,
        Identity(always=True),
        nullable=False,
        comment="Another one each time that the day was computed",
    ),
    recorded("computed_at", "When it was computed, database clock"),
    PrimaryKeyConstraint("figure", "day"),
    schema=PROJECTIONS,
    comment="Which days were computed, and from which state of the facts. A day whose facts have "
    "changed since, or that has no row, is due",
)

day_blocks = Table(
    "day_blocks",
    metadata,
    text("figure", "As in days_done"),
    day(),
    chain(),
    height("height", "Last stored block of the day: the day's figures hold all facts up to it"),
    text("block_hash", "Its hash"),
    seconds("block_time", "Its time"),
    PrimaryKeyConstraint("figure", "day", "chain"),
    ForeignKeyConstraint(
        ["figure", "day"],
        [f"{PROJECTIONS}.days_done.figure", f"{PROJECTIONS}.days_done.day"],
        ondelete="CASCADE",
    ),
    schema=PROJECTIONS,
    comment="Up to which block of which chain each computed day is complete",
)
