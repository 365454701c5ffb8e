"""OFT sends of which nothing else is known, folded as columns: as `fold_oft`, many at once.

A range of an EVM chain has thousands of sends, each with the `PacketSent` of its transaction. Their
deliveries are events of another chain, so most movements of a range have no other events. Tests
hold both folds equal.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from indexer.bridges.oft.events import (
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.chains.events import Event
from indexer.config.networks import Network
from indexer.movements.fold import OFT_EVENTS, oft_stage
from warehouse_schema.identifiers import is_evm

_SENT: dict[str, Any] = {
    "guid": pl.String,
    "dst_eid": pl.Int64,
    "from_address": pl.String,
    "amount_sent": pl.UInt128,
    "amount_received": pl.UInt128,
    "chain": pl.String,
    "tx_hash": pl.String,
    "block_time": pl.Int64,
}
"""Columns of `OftSent` that a movement has."""
_NO_PACKETS = pl.DataFrame(schema={"guid": pl.String, "send_to": pl.String})


def sends_alone(columnar: Mapping[str, pl.DataFrame], others: Iterable[Event]) -> pl.DataFrame:
    """Sends among a range's events whose guid no other send, packet or delivery there has.

    A send that claims to deliver more than it took is left out too: amounts have no sign here.
    `columnar` are frames of events by type, `others` the range's further events. Columns: `_SENT`
    and `send_to` of its packet, null without one.
    """
    sent = columnar.get(OftSent.__name__)
    if sent is None:
        return pl.DataFrame(schema=_SENT | {"send_to": pl.String})
    seen_otherwise = {each.guid for each in others if isinstance(each, OFT_EVENTS)}
    for kind in (OftReceived, PacketVerified, PacketDelivered):
        if (frame := columnar.get(kind.__name__)) is not None:
            seen_otherwise.update(frame["guid"])
    packets = columnar.get(PacketSent.__name__, _NO_PACKETS).select("guid", "send_to")
    seen_otherwise.update(packets.filter(pl.col("guid").is_duplicated())["guid"])
    is_alone = ~pl.col("guid").is_duplicated() & ~pl.col("guid").is_in(list(seen_otherwise))
    has_fee = pl.col("amount_received") <= pl.col("amount_sent")
    alone = sent.select(list(_SENT)).filter(is_alone & has_fee)
    return alone.join(packets, on="guid", how="left")


def movements_of_sends(network: Network, sends: pl.DataFrame) -> pl.DataFrame:
    """Their rows of `projections.movements`, columns named as the table's; null ones are left out.

    `sends` as by `sends_alone`.
    """
    stage, reason = oft_stage([], None)
    # As `bytes32_as_evm`.
    is_evm_address = pl.col("to_evm") & (pl.col("send_to").str.slice(2, 24) == "0" * 24)
    as_evm = pl.concat_str(pl.lit("0x"), pl.col("send_to").str.slice(26))
    destinations = _destinations(network, sends["dst_eid"].unique())
    return sends.join(destinations, on="dst_eid", how="left").select(
        id=pl.concat_str(pl.lit("oft:"), pl.col("guid")),
        mechanism=pl.lit("oft"),
        group_key=pl.col("guid"),
        stage=pl.lit(stage),
        stage_reason=pl.lit(reason),
        source_chain=pl.col("chain"),
        source_tx=pl.col("tx_hash"),
        source_address=pl.col("from_address"),
        amount_in=pl.col("amount_sent"),
        dest_chain=pl.col("dest_chain"),
        dest_address=pl.when(is_evm_address).then(as_evm).otherwise(pl.col("send_to")),
        fee=pl.col("amount_sent") - pl.col("amount_received"),
        message_id=pl.col("guid"),
        sent_at=pl.col("block_time"),
    )


def _destinations(network: Network, eids: pl.Series) -> pl.DataFrame:
    chains = [network.chain_of_eid(eid) for eid in eids]
    return pl.DataFrame(
        {
            "dst_eid": eids,
            "dest_chain": pl.Series(chains, dtype=pl.String),
            "to_evm": pl.Series(
                [each is not None and is_evm(each) for each in chains], dtype=pl.Boolean
            ),
        }
    )
