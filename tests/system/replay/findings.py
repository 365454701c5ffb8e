"""What the warehouses hold after the replay, read back from them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from indexer.chains.events import Event
from indexer.chains.evm.abi import topic_of
from indexer.chains.raw import Block, EvmLog, RawEvent, StellarEvent
from indexer.chains.stellar.xdr.scval import topic_name
from indexer.config.networks import Chain, Network
from indexer.decode.evm import DECODERS
from indexer.facts.checks import alarm_lines, block_faults
from indexer.facts.rows import EVENT_MAPPINGS, RAW_MAPPINGS
from indexer.facts.store import blocks_between, read_events
from indexer.ingest.rebuild import differences
from indexer.movements.fold import Movement
from tests.factories.newer_ledgers import P29, P30, Closing
from tests.system.replay.ingest import (
    OpenWarehouse,
    Replayed,
    ReplayedLedger,
    replay_closed_as,
    replay_layerzero,
    replay_pubnet,
    replay_testnet,
)
from tests.system.replay.messages import ReplayedMessage, replay_messages
from tests.system.replay.movements import ReplayedMovement, movements
from tests.system.replay.scaffolding import has_genuine_hash, is_made_up
from warehouse_schema import projections
from warehouse_schema.identifiers import MAX_HEIGHT, Height, is_evm

_NAMES_OF_TOPICS = {
    topic_of(signature): signature.partition("(")[0]
    for decoders in DECODERS.values()
    for signature in decoders
}


@dataclass(frozen=True, slots=True)
class ChainFindings:
    """What a warehouse holds of one chain."""

    chain: str
    blocks: int
    genuine_blocks: int
    """Of those, blocks that carry their own hash; the others are made up around recordings."""
    raw_events: int
    transactions: int
    """Distinct transactions of the raw events."""
    made_up_transactions: int
    """Of those, hashes that were not recorded, or not wholly."""


@dataclass(frozen=True, slots=True)
class WarehouseFindings:
    """What the warehouse of one network holds."""

    network: Network
    chains: tuple[ChainFindings, ...]
    """Those of which anything was recorded."""
    events: tuple[Event, ...]
    undecoded: Counter[str]
    """Name → raw events kept without a type: of ours, but of no use to the projections."""
    undecodable: int
    folded: tuple[Movement, ...]
    holes: tuple[str, ...]
    """Where blocks do not join; recordings lie apart, so there must be some."""
    differences: tuple[str, ...]
    """Where the projections are not what the facts fold to. Must be empty."""
    alarms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewerProtocol:
    """The whole ledgers as a newer protocol would have closed them."""

    protocol: int
    ledgers: tuple[ReplayedLedger, ...]
    with_milliseconds: int
    """Ledgers stored with a close time in milliseconds."""
    is_same: bool
    """Whether transactions, events and proofs are those of the ledgers as recorded."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the replay found."""

    ledgers: tuple[ReplayedLedger, ...]
    newer: tuple[NewerProtocol, ...]
    warehouses: tuple[WarehouseFindings, ...]
    messages: tuple[ReplayedMessage, ...]
    movements: tuple[ReplayedMovement, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every check came out well; what was not recorded could not be checked."""
        warehouses_are_sound = not any(
            each.differences or each.alarms or each.undecodable for each in self.warehouses
        )
        newer_are_sound = all(each.is_same for each in self.newer)
        return (
            newer_are_sound
            and warehouses_are_sound
            and not any(
                each.is_attested is False or each.agrees_with_service is False
                for each in self.messages
            )
        )


def replay(open_warehouse: OpenWarehouse) -> Findings:
    """Bring in every recording and look at what came of it."""
    pubnet, ledgers = replay_pubnet(open_warehouse)
    replayed = (pubnet, replay_testnet(open_warehouse), replay_layerzero(open_warehouse))
    warehouses = tuple(_warehouse_findings(each) for each in replayed)
    messages = replay_messages({each.network.name: each.events for each in warehouses})
    return Findings(
        ledgers=tuple(ledgers),
        newer=tuple(_newer(open_warehouse, ledgers, closing) for closing in (P29, P30)),
        warehouses=warehouses,
        messages=tuple(messages),
        movements=tuple(movement for each in warehouses for movement in _movements(each, messages)),
    )


def _newer(
    open_warehouse: OpenWarehouse, recorded: Sequence[ReplayedLedger], closing: Closing
) -> NewerProtocol:
    with_milliseconds, ledgers = replay_closed_as(open_warehouse, closing)
    as_closed = [replace(each, protocol=closing.protocol) for each in recorded]
    return NewerProtocol(
        closing.protocol, tuple(ledgers), with_milliseconds, is_same=ledgers == as_closed
    )


def _movements(
    warehouse: WarehouseFindings, messages: Sequence[ReplayedMessage]
) -> list[ReplayedMovement]:
    name = warehouse.network.name
    by_key = {each.burn_key: each.message for each in messages if each.network == name}
    return movements(warehouse.network, warehouse.folded, warehouse.events, by_key)


def _warehouse_findings(replayed: Replayed) -> WarehouseFindings:
    engine, network = replayed.engine, replayed.network
    with engine.connect() as conn:
        chains = [_chain_findings(conn, chain) for chain in network.chains]
        events = tuple(read_events(conn, EVENT_MAPPINGS))
        undecoded, undecodable = _outcomes(conn)
        folded = _folded(conn)
    return WarehouseFindings(
        network=network,
        chains=tuple(chain for chain in chains if chain.blocks),
        events=events,
        undecoded=undecoded,
        undecodable=undecodable,
        folded=folded,
        holes=_for_each_chain(block_faults, engine, network),
        differences=tuple(differences(engine, network)),
        alarms=_for_each_chain(alarm_lines, engine, network),
    )


def _for_each_chain(check: Any, engine: Engine, network: Network) -> tuple[str, ...]:
    return tuple(problem for chain in network.chains for problem in check(engine, chain.id))


def _chain_findings(conn: Connection, chain: Chain) -> ChainFindings:
    blocks: list[Block] = list(blocks_between(conn, chain.id, Height(0), MAX_HEIGHT))
    table = RAW_MAPPINGS[EvmLog if is_evm(chain.id) else StellarEvent].table
    of_chain = table.c.chain == chain.id
    hashes = set(conn.scalars(select(table.c.tx_hash).where(of_chain)))
    return ChainFindings(
        chain=chain.id,
        blocks=len(blocks),
        genuine_blocks=sum(map(has_genuine_hash, blocks)),
        raw_events=conn.scalar(select(func.count()).where(of_chain)) or 0,
        transactions=len(hashes),
        made_up_transactions=sum(map(is_made_up, hashes)),
    )


def _outcomes(conn: Connection) -> tuple[Counter[str], int]:
    """Names of raw events that were not decoded, and the number of those that could not be."""
    undecoded: Counter[str] = Counter()
    undecodable = 0
    for shelf in RAW_MAPPINGS.values():
        typeless = shelf.table.c.event.is_(None)
        failed = shelf.table.c.undecodable.is_not(None)
        undecodable += conn.scalar(select(func.count()).where(failed)) or 0
        for row in conn.execute(select(*shelf.columns).where(typeless, ~failed)):
            undecoded[_name(shelf.item(row))] += 1
    return undecoded, undecodable


def _name(raw: RawEvent) -> str:
    if isinstance(raw, StellarEvent):
        return topic_name(raw) or "without a name"
    return _NAMES_OF_TOPICS.get(raw.topics[0], raw.topics[0])


def _folded(conn: Connection) -> tuple[Movement, ...]:
    names = [field.name for field in fields(Movement)]
    query = select(*(projections.movements.c[name] for name in names)).order_by(
        projections.movements.c.id
    )
    return tuple(Movement(**dict(zip(names, row, strict=True))) for row in conn.execute(query))
