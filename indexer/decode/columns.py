"""Columnar decoder of raw events: a frame of them at a time, with the results of `decode`.

Events that do not fit a layout (`columns_evm.py` and `columns_stellar.py` of each bridge) stay
undecided: `decode` decides if such an event is oddly encoded, undecodable or not ours. So the two
can only disagree about well-formed events, and tests compare them on those. Undecided as well are
EVM amounts beyond 128 bits, offsets that no ABI encoder writes, and of Stellar's events all but
plain transfers of tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import polars as pl

from indexer.bridges import bridge_modules
from indexer.chains.evm.abi import topic_of
from indexer.chains.layouts import EventLayout, LayoutTable
from indexer.chains.stellar.xdr.scval_columns import symbol_topic
from indexer.config.networks import Chain, EvmChain

PROVENANCE = ("chain", "height", "block_hash", "tx_hash", "position", "block_time")


@cache
def evm_layouts() -> LayoutTable:
    """As `evm.DECODERS`: the layouts of its events that have one. Imported when they are needed."""
    return _by_role(bridge_modules("columns_evm"))


@cache
def stellar_layouts() -> LayoutTable:
    """As `evm_layouts`, of `stellar.DECODERS`."""
    return _by_role(bridge_modules("columns_stellar"))


def _by_role(modules: Iterable[ModuleType]) -> LayoutTable:
    return {role: layouts for each in modules for role, layouts in each.LAYOUTS.items()}


@dataclass(frozen=True, slots=True)
class ColumnarEvents:
    """The decoded frame: its raw events in two parts, each in their order."""

    decided: pl.DataFrame
    """Raw events with `event`: type name, or null for one that is not ours."""
    undecided: pl.DataFrame
    events: Mapping[str, pl.DataFrame]
    """Event type → provenance and fields, columns named as its table's."""


def decode_columns(raw: pl.DataFrame, chain: Chain) -> ColumnarEvents:
    """Decode a frame that has the columns of an `EvmLog` or a `StellarEvent`, except its chain.

    `topics` is a list of texts and the data a text, all lower-case hex behind `0x`; the reader has
    checked that.
    """
    emitter = "address" if isinstance(chain, EvmChain) else "contract"
    rows = raw.with_row_index("row").with_columns(
        chain=pl.lit(chain.id), first_topic=pl.col("topics").list.get(0, null_on_oob=True)
    )
    layouts = _layouts_of(chain)
    found: dict[str, list[pl.DataFrame]] = {}
    decided = [rows.clear().with_columns(event=pl.lit(None, dtype=pl.String))]
    undecided = [rows.clear()]
    for key, part in rows.partition_by(emitter, "first_topic", as_dict=True).items():
        layout = layouts.get(key)
        if layout is None:
            undecided.append(part)
            continue
        decoded = _decode_part(part, layout)
        found.setdefault(layout.event, []).append(decoded.events)
        decided += [
            decoded.ours.with_columns(event=pl.lit(layout.event)),
            decoded.not_ours.with_columns(event=pl.lit(None, dtype=pl.String)),
        ]
        undecided += decoded.undecided
    return ColumnarEvents(
        decided=_in_order(decided).select(*raw.columns, "event"),
        undecided=_in_order(undecided).select(raw.columns),
        events={event: _in_order(frames).drop("row") for event, frames in found.items()},
    )


def _in_order(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).sort("row")


@dataclass(frozen=True, slots=True)
class _DecodedPart:
    """Raw events of one layout, which are its own, another application's, or undecided."""

    events: pl.DataFrame
    """What `ours` are decoded to."""
    ours: pl.DataFrame
    not_ours: pl.DataFrame
    undecided: Sequence[pl.DataFrame]


def _decode_part(part: pl.DataFrame, layout: EventLayout) -> _DecodedPart:
    fits = part.select(layout.fit()).to_series()
    fitting, unfit = _split(part, fits)
    is_ours = fitting.select(is_ours=layout.is_ours.fill_null(value=False)).to_series()
    ours, not_ours = _split(fitting, is_ours)
    fields = {name: each.value for name, each in layout.fields.items()}
    events = ours.select("row", *PROVENANCE, **fields)
    events = events.with_columns(
        _computed(events[name], function) for name, function in layout.computed.items()
    )
    agrees = events.select(agrees=layout.agrees.fill_null(value=False)).to_series()
    decoded, _ = _split(events, agrees)
    ours, odd = _split(ours, agrees)
    return _DecodedPart(
        events=decoded.drop(layout.dropped), ours=ours, not_ours=not_ours, undecided=[unfit, odd]
    )


def _split(frame: pl.DataFrame, holds: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows for which it holds, and the others; it is never null, and nearly always true."""
    if holds.all():
        return frame, frame.clear()
    return frame.filter(holds), frame.filter(~holds)


def _computed(texts: pl.Series, function: Callable[[str], str]) -> pl.Series:
    """The function's results in place of the texts; it is called once for each that differs."""
    distinct = texts.drop_nulls().unique()
    results = pl.Series([function(each) for each in distinct], dtype=pl.String)
    return texts.replace_strict(distinct, results, default=None, return_dtype=pl.String)


@cache
def _layouts_of(chain: Chain) -> Mapping[tuple[Any, ...], EventLayout]:
    """(contract, topic 0) → layout, for the contracts of this chain."""
    is_evm = isinstance(chain, EvmChain)
    first_topic = topic_of if is_evm else symbol_topic
    return {
        (contract, first_topic(name)): layout if isinstance(layout, EventLayout) else layout(chain)
        for role, layouts in (evm_layouts() if is_evm else stellar_layouts()).items()
        if (contract := getattr(chain, role)) is not None
        for name, layout in layouts.items()
    }
