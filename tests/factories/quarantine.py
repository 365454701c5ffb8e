"""A devnet's history with ledgers that are worth losing, and what a warehouse makes of it."""

import dataclasses
from functools import cache
from pathlib import Path

from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
from indexer.config.networks import Network, load_network
from indexer.facts import quarantine as rows
from indexer.facts.alarms import open_alarms
from indexer.ingest.quarantine import RetryResult, retry
from tests.devnet.stellar.cctp import REMOTES
from tests.devnet.stellar.chain import UNIT, Chain
from tests.devnet.stellar.market import Market
from tests.devnet.stellar.test_oft import send
from tests.factories.contents import contents
from tests.factories.ingesting import ingest_once
from tests.factories.stellar_lake import DEVNET, FIRST, batch_of, compressed, name_of
from warehouse_schema.identifiers import Height, StellarAddress

OLDER = "an older build"


@dataclasses.dataclass(frozen=True)
class History:
    """A devnet's ledgers, of which some are worth losing."""

    metas: tuple[bytes, ...]
    provider: StellarAddress
    sent: Height
    """An OFT send."""
    terms: Height
    deposits: tuple[Height, ...]
    """The provider's Escrow events, in order."""

    @property
    def last(self) -> Height:
        return Height(FIRST + len(self.metas) - 1)


@cache
def history() -> History:
    chain = Chain(REMOTES)
    alice = chain.open("alice", usdt0=100 * UNIT)
    assert send(chain, alice, 5 * UNIT).succeeded
    sent = chain.node.latest.sequence
    market = Market(chain=chain)
    market.set_terms()
    terms = chain.node.latest.sequence
    market.set_payee()
    deposits = []
    for amount in (20, 5, 7):
        market.deposit(amount)
        deposits.append(Height(chain.node.latest.sequence))
    chain.node.close_ledger()
    node = chain.node
    return History(
        metas=tuple(node.ledger(at).meta for at in range(FIRST, node.latest.sequence + 1)),
        provider=StellarAddress(market.provider.public_key),
        sent=Height(sent),
        terms=Height(terms),
        deposits=tuple(deposits),
    )


@cache
def network() -> Network:
    """The devnet, with the provider watched."""
    return dataclasses.replace(
        load_network("devnet"),
        stellar=dataclasses.replace(DEVNET, watched=(history().provider,)),
    )


def drained(engine: Engine, reader: ChainReader, max_blocks: int = 200) -> int:
    """How many ledgers were put into quarantine on the way to the head."""
    count = 0
    while progress := ingest_once(engine, reader, network(), max_blocks=max_blocks):
        count += progress.quarantined
    return count


def standing(engine: Engine) -> list[rows.QuarantinedLedger]:
    with engine.connect() as conn:
        return rows.list_ledgers(conn)


def alarms(engine: Engine) -> list[tuple[str, str]]:
    with engine.connect() as conn:
        return [(alarm.kind, alarm.subject) for alarm in open_alarms(conn)]


def mended(engine: Engine) -> dict[str, list[str]]:
    """What must be as if nothing had ever been in quarantine.

    That it was is told by its alarm, by the day whose facts have changed since, and by the messages
    that came late, with their notifications.
    """
    return contents(
        engine,
        without=(
            *("facts.alarms", "facts.changed_days", "projections.stream_events"),
            "notifications.queued",
        ),
    )


def tried(engine: Engine, reader: ChainReader | None = None) -> list[RetryResult]:
    return list(retry(engine, network(), standing(engine), reader))


def damage(folder: Path, height: Height) -> bytes:
    """Cut a ledger in the lake short, behind its transactions."""
    raw = history().metas[height - FIRST][:-1000]
    path = folder / name_of(height, height, 1, 1)
    path.write_bytes(compressed(batch_of([raw], height)))
    return raw


def everything_of_ours() -> tuple[Height, ...]:
    return (history().sent, history().terms, *history().deposits)
