"""The recordings, each through its reader into the warehouse of its network.

A warehouse is of one network, so each network has its own. What is recorded lies far apart: every
ledger is a range of its own, read by `backfill`, and the last one of a chain by `ingest_once`, from
which the chain has its cursor. No follower could: the ledgers in between were not recorded.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine, func, select

from indexer.bridges.tokens.decode_stellar import ForgedAssetEvent, classify_asset_event
from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.stellar.xdr.ledgers import Ledger, LedgerProof
from indexer.config.networks import EvmChain, Network, StellarChain, load_network
from indexer.decode.evm import event_topics
from indexer.errors import WrongChain
from indexer.ingest.backfill import backfill
from tests.factories.ingesting import ingest_once
from tests.factories.newer_ledgers import Closing, closed_as
from tests.factories.recorded_ledgers import RecordedLedgers, recorded_ledgers
from tests.system.replay import recordings
from tests.system.replay.evm_node import RecordedEvmNode
from tests.system.replay.recordings import EvmRecord, StellarRecord
from tests.system.replay.serving import Node, serving
from tests.system.replay.stellar_node import RecordedStellarNode
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, EvmAddress, Height, StellarAddress

NETWORKS = Path(__file__).parent / "networks"

WATCHED = StellarAddress("GAUA7XL5K54CC2DDGP77FJ2YBHRJLT36CPZDXWPM6MP7MANOGG77PNJU")
"""An account that moves USDC in three of the recorded ledgers."""

SEPOLIA, ARC = ChainId("eip155:11155111"), ChainId("eip155:5042002")
SUPERPOSITION = ChainId("eip155:55244")

OpenWarehouse = Callable[[str], Engine]
"""Network name → an engine on its empty, migrated warehouse."""


@dataclass(frozen=True, slots=True)
class ReplayedLedger:
    """A whole recorded ledger: its hashes were proven, and all its events looked at."""

    height: Height
    protocol: int
    transactions: int
    successful: int
    events: int
    """Contract events of successful transactions, whoever emitted them."""
    failed_fees: int
    """Fee events of failed transactions."""
    movements: Counter[str]
    """Kind of asset event → number, fees of failed transactions included."""
    other_events: int
    """Events that are no asset events: contracts' own."""
    look_alikes: tuple[ForgedAssetEvent, ...]
    proof: LedgerProof


@dataclass(frozen=True, slots=True)
class Replayed:
    """A network and its warehouse, with what was recorded in it."""

    network: Network
    engine: Engine


def replay_pubnet(open_warehouse: OpenWarehouse) -> tuple[Replayed, list[ReplayedLedger]]:
    """Whole ledgers, then the events of the CCTP contracts, under the shipped network file."""
    shipped = load_network("mainnet")
    watching = replace(shipped.stellar, watched=(WATCHED,))
    network = replace(shipped, stellar=watching)
    engine = open_warehouse(network.name)
    with _no_collections():
        ledgers = [
            ledger
            for file in recordings.LEDGER_FILES
            for ledger in _replay_ledgers(engine, network, file)
        ]
    _replay_stellar_events(engine, network, recordings.cctp_events())
    return Replayed(network, engine), sorted(ledgers, key=lambda each: each.height)


def replay_closed_as(
    open_warehouse: OpenWarehouse, closing: Closing
) -> tuple[int, list[ReplayedLedger]]:
    """Whole ledgers with headers of a newer protocol, into a warehouse of their own.

    Gives how many of them are stored with a close time in milliseconds, and the ledgers.
    """
    network = load_network("mainnet")
    engine = open_warehouse(f"mainnet_protocol_{closing.protocol}")
    with TemporaryDirectory() as folder, _no_collections():
        ledgers: list[ReplayedLedger] = []
        for number, raw in enumerate(_recorded_raws()):
            file = Path(folder, f"{number}.xdr")
            file.write_bytes(closed_as(raw, closing))
            ledgers += _replay_ledgers(engine, network, file)
    with engine.connect() as conn:
        stored = conn.scalar(select(func.count(blocks.c.close_time_ms))) or 0
    return stored, sorted(ledgers, key=lambda each: each.height)


def _recorded_raws() -> Iterator[bytes]:
    for file in recordings.LEDGER_FILES:
        yield from recorded_ledgers(file)


def replay_testnet(open_warehouse: OpenWarehouse) -> Replayed:
    """The OFT send on Stellar, the burn on Sepolia, the mint on Arc."""
    network = load_network("testnet", folder=NETWORKS)
    engine = open_warehouse(network.name)
    _replay_stellar_events(engine, network, recordings.oft_send())
    burn = recordings.sepolia_burn(_evm_chain(network, SEPOLIA))
    _drain_logs(engine, network, SEPOLIA, [burn])
    _drain_logs(engine, network, ARC, recordings.arc_receipt())
    return Replayed(network, engine)


def replay_layerzero(open_warehouse: OpenWarehouse) -> Replayed:
    """LayerZero logs, each as seen by whoever it is for.

    A chain has one OFT of ours, and these logs are for three applications; so the applications take
    turns at being it. Nobody is for `PacketSent`: its sender is no OFT, and it must not be kept.
    """
    network = load_network("layerzero", folder=NETWORKS)
    engine = open_warehouse(network.name)
    logs = recordings.layerzero_logs()
    verified, delivered = logs["PacketVerified"], logs["PacketDelivered"]
    receiving = _with_oft(network, recordings.receiver_of(verified))
    _backfill_logs(engine, network, SUPERPOSITION, [logs["OFTReceived"]])
    _backfill_logs(engine, network, SUPERPOSITION, [logs["PacketSent"]])
    _backfill_logs(engine, receiving, SUPERPOSITION, [verified])
    receiving = _with_oft(network, recordings.receiver_of(delivered))
    _drain_logs(engine, receiving, SUPERPOSITION, [delivered])
    return Replayed(network, engine)


# Whole ledgers


class _LedgerArchive(RecordedLedgers):
    """Recorded ledgers that show once, not at each range, which network they are of."""

    def __init__(self, chain: StellarChain, file: Path) -> None:
        super().__init__(chain, [file])
        self._identified = False

    def check_identity(self) -> None:
        if not self._identified:
            super().check_identity()
            self._identified = True


def _replay_ledgers(engine: Engine, network: Network, file: Path) -> Iterator[ReplayedLedger]:
    reader = _LedgerArchive(network.stellar, file)
    for height in reader.heights:
        backfill(engine, reader, _unfollowed(network), height, height, on_progress=_say_nothing)
        ledger, proof = reader.ledger(height), reader.proof(height)
        yield replayed_ledger(ledger, proof, network.stellar.passphrase)


def replayed_ledger(ledger: Ledger, proof: LedgerProof, passphrase: str) -> ReplayedLedger:
    """Every event of a ledger classified, not only those that we keep."""
    movements: Counter[str] = Counter()
    look_alikes = []
    for event in (*ledger.events, *ledger.failed_fees):
        kind = _asset_event(event, passphrase)
        if isinstance(kind, ForgedAssetEvent):
            look_alikes.append(kind)
        elif kind is not None:
            movements[kind] += 1
    events = len(ledger.events) + len(ledger.failed_fees)
    return ReplayedLedger(
        height=ledger.block.height,
        protocol=ledger.block.protocol_version or 0,
        transactions=len(ledger.transactions),
        successful=sum(each.successful for each in ledger.transactions),
        events=len(ledger.events),
        failed_fees=len(ledger.failed_fees),
        movements=movements,
        other_events=events - movements.total() - len(look_alikes),
        look_alikes=tuple(look_alikes),
        proof=proof,
    )


def _asset_event(event: StellarEvent, passphrase: str) -> str | ForgedAssetEvent | None:
    found = classify_asset_event(event, passphrase)
    if found is None or isinstance(found, ForgedAssetEvent):
        return found
    return found.kind if isinstance(found, AssetMovement) else "set_authorized"


# Events of ledgers and blocks that were not recorded whole


def _replay_stellar_events(
    engine: Engine, network: Network, records: Sequence[StellarRecord]
) -> None:
    chain = network.stellar
    *earlier, last = sorted({record.ledger for record in records})
    with _reading(RecordedStellarNode(chain, records), chain) as reader:
        for ledger in earlier:
            backfill(engine, reader, _unfollowed(network), ledger, ledger, on_progress=_say_nothing)
        starting_last = replace(network, stellar=replace(chain, start_height=last))
        ingest_once(engine, reader, starting_last)


def _drain_logs(
    engine: Engine, network: Network, chain_id: ChainId, records: Sequence[EvmRecord]
) -> None:
    chain = _evm_chain(network, chain_id)
    with _reading(RecordedEvmNode(chain, records), chain) as reader:
        ingest_once(engine, reader, network)


def _backfill_logs(
    engine: Engine, network: Network, chain_id: ChainId, records: Sequence[EvmRecord]
) -> None:
    chain = _evm_chain(network, chain_id)
    with _reading(RecordedEvmNode(chain, records), chain) as reader:
        for height in sorted({record.height for record in records}):
            backfill(engine, reader, _unfollowed(network), height, height, on_progress=_say_nothing)


def _unfollowed(network: Network) -> Network:
    """The network without the starts of its followers, all of it final.

    What is recorded lies on both sides of them, and ends with what was recorded last.
    """
    return replace(
        network,
        stellar=replace(network.stellar, start_height=None, confirmations=0),
        evm=tuple(replace(chain, start_height=None, confirmations=0) for chain in network.evm),
    )


@contextmanager
def _reading(node: Node, chain: EvmChain | StellarChain) -> Iterator[ChainReader]:
    """The real reader of a chain, before a recorded node of it."""
    with serving(node) as url:
        reader: ChainReader
        if isinstance(chain, EvmChain):
            reader = EvmReader(chain, [url], event_topics, timeout=30.0)
        else:
            reader = StellarReader(chain, [url])
        try:
            yield reader
        finally:
            reader.close()


def _evm_chain(network: Network, chain_id: ChainId) -> EvmChain:
    chain = network.chain(chain_id)
    if not isinstance(chain, EvmChain):
        raise WrongChain(f"{chain_id} is not an EVM chain")
    return chain


def _with_oft(network: Network, oft: EvmAddress) -> Network:
    """The network with another application of its only EVM chain as our OFT."""
    (chain,) = network.evm
    return replace(network, evm=(replace(chain, oft=oft, usdt0=oft),))


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collections: a ledger is a million objects without cycles, and half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _say_nothing(_: object) -> None:
    """A range of one block has no progress worth a word."""
