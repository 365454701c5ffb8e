"""Any log of a watched EVM contract is stored, marked if undecodable, and stops no chain.

Live and as a backfill, through a node each, with logs that dice have made: genuine ones changed,
bytes of no shape at all, amounts and numbers at their limits, and pairs that belong together.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain as concatenated
from typing import Any

import pytest
from sqlalchemy import URL, ColumnElement, Engine, func, select

from indexer.bridges.deposit_address.factory import FACTORY
from indexer.chains.events import Provenance
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.reader import EvmReader
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.decode.evm import DECODERS, decode, event_topics
from indexer.errors import Undecodable
from indexer.facts.alarms import open_alarms
from indexer.facts.checks import block_faults
from indexer.facts.decoding import shared_contracts
from indexer.ingest.backfill import backfill
from indexer.ingest.rebuild import differences
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.indexer.decode.test_columns_evm import made, mutated
from tests.indexer.decode.test_evm import (
    MESSAGE_RECEIVED,
    MINT_AND_WITHDRAW,
    OFT_RECEIVED,
    OFT_SENT,
    USER,
    changed,
    make_alert,
    make_burn,
    make_log,
    make_message,
    make_message_sent,
    tail,
    topic,
    word,
)
from tests.system.replay.serving import serving
from warehouse_schema.engine import make_engine
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import evm_logs
from warehouse_schema.identifiers import EvmAddress, Height, TxHash
from warehouse_schema.projections import movements

BLOCKS = 60
MOST = 2**256 - 1
LIMITS = (0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**127, 2**128, 10**77, MOST)
STELLAR_DOMAIN = 27


def network(start_height: int) -> Any:
    """A short Ethereum with deposit addresses, on which a user's deposits are watched."""
    whole = fake_network(confirmations=2, start_height=start_height)
    (chain,) = whole.evm
    watched = dataclasses.replace(chain, watched=(EvmAddress(USER),), deposit_factory=FACTORY)
    return dataclasses.replace(whole, evm=(watched,))


LIVE, LATER = network(1), network(BLOCKS + 1)
CHAIN: EvmChain = LIVE.evm[0]


# What the dice make


def _watched_topics() -> list[tuple[EvmAddress, str]]:
    of_contracts = [
        (address, first) for address, firsts in event_topics(CHAIN).items() for first in firsts
    ]
    return of_contracts + [(token, TRANSFER_TOPIC) for token in CHAIN.tokens]


def _shapeless(dice: random.Random) -> EvmLog:
    """Any bytes from any watched contract under any watched name."""
    address, first = dice.choice(_watched_topics())
    topics = [topic(dice.getrandbits(dice.choice((8, 160, 256)))) for _ in range(dice.randrange(4))]
    if first == TRANSFER_TOPIC and len(topics) > 1:
        topics[1] = topic(USER)
    data = dice.randbytes(dice.choice((0, 1, 31, 32, 33, 64, 96, 160, 300, 1000)))
    return changed(make_log(address, "x()"), topics=(first, *topics), data=data)


def _at_the_limits(dice: random.Random) -> EvmLog:
    """A genuine log of which some words are as large or small as words can be."""
    log = dice.choice([*made(CHAIN).values(), make_alert(CHAIN, CHAIN.oft)])
    data = bytearray(log.data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(0, len(data), 32)
        data[at : at + 32] = word(dice.choice(LIMITS))
    return changed(log, data=bytes(data))


def _burn(dice: random.Random) -> list[EvmLog]:
    """A message and its burn, of any amounts."""
    amount = dice.choice(LIMITS)
    body = make_message(CHAIN)[148:]
    message = make_message(CHAIN)[:148] + body[:68] + word(amount) + body[100:]
    return [
        make_message_sent(CHAIN, message),
        make_burn(CHAIN, amount=amount, max_fee=dice.choice(LIMITS)),
    ]


def _mint(dice: random.Random) -> list[EvmLog]:
    """A mint and its message from Stellar, of any amounts."""
    amounts = word(dice.choice(LIMITS)) + word(dice.choice(LIMITS))
    body = make_message(CHAIN)[148:]
    data = word(STELLAR_DOMAIN) + word("0x" + "77" * 32) + word(0x60) + tail(body)
    token, nonce = topic(str(CHAIN.usdc)), topic(dice.getrandbits(256))
    return [
        make_log(CHAIN.cctp_token_messenger, MINT_AND_WITHDRAW, topic(USER), token, data=amounts),
        make_log(
            CHAIN.cctp_message_transmitter,
            MESSAGE_RECEIVED,
            topic(USER),
            nonce,
            topic(2000),
            data=data,
        ),
    ]


def _oft(dice: random.Random) -> list[EvmLog]:
    """A send and a delivery of one guid, of any amounts."""
    guid, eid = topic(dice.getrandbits(16)), word(dice.choice((30600, 30101, 7)))
    sent, received = (word(dice.choice(LIMITS)) for _ in range(2))
    return [
        make_log(CHAIN.oft, OFT_SENT, guid, topic(USER), data=eid + sent + received),
        make_log(CHAIN.oft, OFT_RECEIVED, guid, topic(USER), data=eid + received),
    ]


def _thrown(dice: random.Random) -> list[EvmLog]:
    match dice.randrange(6):
        case 0:
            return _burn(dice)
        case 1:
            return _mint(dice)
        case 2:
            return _oft(dice)
        case 3:
            return [_shapeless(dice)]
        case 4:
            return [_at_the_limits(dice)]
        case _:
            return [mutated(dice.choice([*made(CHAIN).values()]), dice)]


def hostile_chain(seed: int) -> FakeChain:
    """Blocks of a transaction or two each, whose logs are such."""
    dice = random.Random(seed)
    chain = FakeChain(LIVE)
    chain.grow(BLOCKS + 4, sends=0)
    for block in chain.blocks[1 : BLOCKS + 1]:
        logs: list[EvmLog] = []
        for _ in range(dice.randrange(1, 3)):
            tx = TxHash("0x" + dice.randbytes(32).hex())
            for log in concatenated.from_iterable(_thrown(dice) for _ in range(8)):
                seen = Provenance(
                    chain=chain.chain,
                    height=block.height,
                    block_hash=block.hash,
                    tx_hash=tx,
                    position=len(logs),
                    block_time=block.time,
                )
                logs.append(changed(log, seen=seen))
        chain.logs[block.hash] = logs
    return chain


# What becomes of it


@contextmanager
def reading(chain: FakeChain) -> Iterator[EvmReader]:
    with serving(FakeEvmNode(chain)) as url:
        reader = EvmReader(CHAIN, [url], event_topics, timeout=30.0)
        try:
            yield reader
        finally:
            reader.close()


def events(engine: Engine) -> dict[str, list[str]]:
    """Every decoded event and movement, and what became of each raw log of ours."""
    ours = select(evm_logs).where(_is_ours())
    tables = [*EVENT_TABLES.values(), movements]
    with engine.connect() as conn:
        found = {table.name: sorted(map(repr, conn.execute(select(table)))) for table in tables}
        found["evm_logs"] = sorted(map(repr, conn.execute(ours)))
        found["alarms"] = sorted(map(repr, open_alarms(conn)))
    return found


def _is_ours() -> ColumnElement[bool]:
    """Not what others said through a shared contract: a backfill keeps it, a follower does not."""
    columns = evm_logs.c
    is_elsewhere = columns.address.not_in(shared_contracts(CHAIN))
    return is_elsewhere | columns.event.is_not(None) | columns.undecodable.is_not(None)


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    engine = make_engine(clone(), role="indexer")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("seed", range(2))
def test_hostile_logs_are_stored(seed: int, indexer_engine: Engine, second_engine: Engine) -> None:
    chain = hostile_chain(seed)
    with reading(chain) as reader:
        while ingest_once(indexer_engine, reader, LIVE, max_blocks=17) is not None:
            pass
        backfill(second_engine, reader, LATER, Height(1), Height(BLOCKS), lambda progress: None)
    live = events(indexer_engine)
    assert live == events(second_engine)
    for engine in (indexer_engine, second_engine):
        assert block_faults(engine, ETHEREUM) == []
        assert differences(engine, LIVE) == []
        assert _judged(engine) == _expected(chain)


def _judged(engine: Engine) -> list[tuple[int, int, str | None, bool]]:
    """Stored logs by place, what they were decoded to, and whether they are marked instead."""
    columns = evm_logs.c
    query = select(
        columns.height, columns.position, columns.event, columns.undecodable.is_not(None)
    ).where(_is_ours())
    with engine.connect() as conn:
        rows = [tuple(row) for row in conn.execute(query.order_by("height", "position"))]
        marked = conn.scalar(
            select(func.count()).select_from(evm_logs).where(columns.undecodable.is_not(None))
        )
        assert len([a for a in open_alarms(conn) if a.kind == "undecodable"]) == marked
    return rows


def _expected(chain: FakeChain) -> list[tuple[int, int, str | None, bool]]:
    """The same by the decoder alone, of all logs that a node is asked for."""
    found: list[tuple[int, int, str | None, bool]] = []
    for block in chain.blocks:
        for log in chain.logs[block.hash]:
            if log.topics[0] == TRANSFER_TOPIC and log.topics[2:3] != (topic(USER),):
                continue
            try:
                event = decode(log, CHAIN)
            except Undecodable:
                found.append((block.height, log.seen.position, None, True))
                continue
            name = None if event is None else type(event).__name__
            if name is not None or log.address not in shared_contracts(CHAIN):
                found.append((block.height, log.seen.position, name, False))
    return found


def test_burn_beyond_other_decimals_is_marked() -> None:
    for amount in (2**252, MOST):
        with pytest.raises(Undecodable, match="does not fit 252 bits"):
            decode(make_burn(CHAIN, amount=amount), CHAIN)
    assert decode(make_burn(CHAIN, amount=2**252 - 1), CHAIN) is not None


def test_random_logs_reach_every_decoder() -> None:
    thrown = [
        log for seed in range(2) for logs in hostile_chain(seed).logs.values() for log in logs
    ]
    for address, first in _watched_topics():
        assert any((log.address, log.topics[0]) == (address, first) for log in thrown), first
    assert len(thrown) > 1000
    assert {name for role in DECODERS.values() for name in role}
