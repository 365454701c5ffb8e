"""Events of the RailTerms contract, version 1 (`v` = 1 in every event's data)."""

from collections.abc import Callable, Mapping

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    ScMap,
    Topics,
    address,
    amount,
    boolean,
    count,
    symbol,
    symbols,
    text,
    u32,
    word,
)
from indexer.market.decode_escrow import order_direction
from indexer.market.rail_terms_events import (
    PayeeSet,
    ProviderSet,
    RailSet,
    RailTermsEvent,
    TermsDel,
    TermsSet,
)

VERSION = 1


def _rail_set(event: StellarEvent) -> RailSet:
    topics, data = Topics.of(event, 2), ScMap.of(event, VERSION)
    return RailSet(
        seen=event.seen,
        rail=topics.read(1, symbol),
        enabled=data.read("enabled", boolean),
        tier=data.read("tier", u32),
        fee_bps=data.read("fee_bps", u32),
        verifier=data.read("verifier", address),
        currencies=data.read("currencies", symbols),
    )


def _terms_set(event: StellarEvent) -> TermsSet:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return TermsSet(
        seen=event.seen,
        provider=topics.read(1, address),
        rail=topics.read(2, symbol),
        currency=topics.read(3, symbol),
        direction=data.read("direction", order_direction),
        rate=data.read("rate", amount),
        min=data.read("min", amount),
        max=data.read("max", amount),
        tseq=data.read("tseq", count),
    )


def _terms_del(event: StellarEvent) -> TermsDel:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return TermsDel(
        seen=event.seen,
        provider=topics.read(1, address),
        rail=topics.read(2, symbol),
        currency=topics.read(3, symbol),
        direction=data.read("direction", order_direction),
        tseq=data.read("tseq", count),
    )


def _payee_set(event: StellarEvent) -> PayeeSet:
    topics, data = Topics.of(event, 3), ScMap.of(event, VERSION)
    return PayeeSet(
        seen=event.seen,
        provider=topics.read(1, address),
        rail=topics.read(2, symbol),
        registered=data.read("registered", boolean),
        payee_hash=data.optional("payee_hash", word),
        handle=data.optional("handle", text),
        tseq=data.read("tseq", count),
    )


def _provider_set(event: StellarEvent) -> ProviderSet:
    topics, data = Topics.of(event, 2), ScMap.of(event, VERSION)
    return ProviderSet(
        seen=event.seen,
        provider=topics.read(1, address),
        paused=data.read("paused", boolean),
        tseq=data.read("tseq", count),
    )


DECODERS: Mapping[str, Callable[[StellarEvent], RailTermsEvent]] = {
    "rail_set": _rail_set,
    "terms_set": _terms_set,
    "terms_del": _terms_del,
    "payee_set": _payee_set,
    "provider_set": _provider_set,
}
"""Decoders of all events, by topic 0. Each raises `Undecodable` for another shape."""
