"""Columnar decoder of EVM logs: a frame of logs at a time, with the results of `evm.decode`.

Logs that do not fit a layout (`columns_evm.py` of each bridge) stay undecided: `evm.decode`
decides if such a log is oddly encoded, undecodable or not ours. So the two can only disagree about
well-formed logs, and tests compare them on those. Undecided as well are amounts beyond 128 bits,
and offsets that no ABI encoder writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl
from eth_hash.auto import keccak

from indexer.bridges import bridge_modules
from indexer.chains.evm.abi import topic_of
from indexer.chains.evm.abi_columns import EventLayout, LayoutTable
from indexer.config.networks import EvmChain

PROVENANCE = ("chain", "height", "block_hash", "tx_hash", "position", "block_time")

LAYOUTS: LayoutTable = {
    role: layouts
    for bridge in bridge_modules("columns_evm")
    for role, layouts in bridge.LAYOUTS.items()
}
"""As `evm.DECODERS`: the layouts of its events that have one."""


@dataclass(frozen=True, slots=True)
class ColumnarEvents:
    """The decoded frame."""

    logs: pl.DataFrame
    """The logs with `event` (type name; null: not ours or undecided) and `is_undecided`."""
    events: Mapping[str, pl.DataFrame]
    """Event type → provenance and fields, columns named as its table's."""


def decode_columns(logs: pl.DataFrame, chain: EvmChain) -> ColumnarEvents:
    """Decode the logs of a frame that has the columns of an `EvmLog`, except its chain.

    `topics` is a list of 32-byte texts and `data` a text, all lower-case hex behind `0x`; the
    reader has checked that.
    """
    rows = logs.with_row_index("row").with_columns(
        chain=pl.lit(chain.id), first_topic=pl.col("topics").list.get(0, null_on_oob=True)
    )
    layouts = _layouts_of(chain)
    found: dict[str, list[pl.DataFrame]] = {}
    outcomes = [pl.DataFrame(schema={"row": rows.schema["row"], "event": pl.String})]
    for emitter, part in rows.partition_by("address", "first_topic", as_dict=True).items():
        layout = layouts.get(emitter)
        if layout is not None:
            events, not_ours = _decode_part(part, layout)
            found.setdefault(layout.event, []).append(events)
            outcomes.append(events.select("row", event=pl.lit(layout.event)))
            outcomes.append(not_ours.select("row", event=pl.lit(None, dtype=pl.String)))
    decided = pl.concat(outcomes).with_columns(is_undecided=pl.lit(value=False))
    return ColumnarEvents(
        logs=rows.select("row", *logs.columns)
        .join(decided, on="row", how="left", maintain_order="left")
        .with_columns(pl.col("is_undecided").fill_null(value=True))
        .drop("row"),
        events={
            event: pl.concat(frames).sort("row").drop("row") for event, frames in found.items()
        },
    )


def _decode_part(part: pl.DataFrame, layout: EventLayout) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events of the logs that fit the layout, and the logs that fit and are not ours."""
    fitting = part.filter(layout.fit())
    is_ours = layout.is_ours.fill_null(value=False)
    fields = {name: each.value for name, each in layout.fields.items()}
    events = fitting.filter(is_ours).select("row", *PROVENANCE, **fields)
    for name, preimage in layout.hashed.items():
        # Row by row: polars has no keccak.
        hashes = [
            None if each is None else "0x" + keccak(bytes.fromhex(each)).hex()
            for each in events.select(preimage).to_series()
        ]
        events = events.with_columns(pl.Series(name, hashes, dtype=pl.String))
    agreeing = events.filter(layout.agrees.fill_null(value=False)).drop(layout.dropped)
    return agreeing, fitting.filter(~is_ours)


@cache
def _layouts_of(chain: EvmChain) -> Mapping[tuple[Any, ...], EventLayout]:
    """(contract, topic 0) → layout, for the contracts of this chain."""
    return {
        (address, topic_of(signature)): layout if isinstance(layout, EventLayout) else layout(chain)
        for role, layouts in LAYOUTS.items()
        if (address := getattr(chain, role)) is not None
        for signature, layout in layouts.items()
    }
