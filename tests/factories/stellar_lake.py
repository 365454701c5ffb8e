"""Data lakes in a folder (SEP-54), and the devnet history that fills them.

The history has everything in it that the indexer reads of Stellar: classic payments, an OFT send,
an order book, invocations that fail, and ledgers with nothing.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import zstandard
from stellar_sdk import scval
from stellar_sdk.operation import ChangeTrust

from devnet.stellar import building
from devnet.stellar.accounts import PASSPHRASE, USDC, address
from devnet.stellar.asset_events import token_contract
from devnet.stellar.registry import devnet_contracts
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.config.networks import StellarChain, load_network
from tests.devnet.stellar.cctp import REMOTES
from tests.devnet.stellar.chain import UNIT, Chain
from tests.devnet.stellar.test_oft import send
from tests.factories.recorded_ledgers import recorded_ledgers
from tests.factories.stellar_ledgers import FILES
from tests.factories.stellar_recorded import PUBNET

DEVNET: StellarChain = load_network("devnet").stellar
FIRST = 2


@cache
def history() -> Chain:
    """Ledgers 2 to about 60 of a devnet. Made once: never close a ledger of it."""
    chain = Chain(REMOTES)
    alice = chain.open("alice", usdc=100 * UNIT, usdt0=100 * UNIT)
    bob = chain.open("bob", usdc=0)
    chain.pay(alice, bob.public_key, UNIT)
    chain.pay(alice, bob.public_key, 1000 * UNIT)
    for _ in range(12):
        chain.node.close_ledger()
    assert send(chain, alice, 5 * UNIT).succeeded
    terms = (scval.to_symbol("venmo"), scval.to_symbol("USD"), scval.to_symbol("onramp"))
    amounts = (scval.to_int128(amount) for amount in (UNIT, UNIT, 50 * UNIT))
    contracts = devnet_contracts()
    me = scval.to_address(alice.public_key)
    chain.invoke(alice, contracts.rail_terms, "set_terms", me, *terms, *amounts)
    chain.invoke(alice, contracts.escrow, "deposit", me, scval.to_int128(20 * UNIT))
    for _ in range(12):
        chain.node.close_ledger()
    _everything_at_once(chain, alice, bob)
    chain.pay(alice, bob.public_key, 2 * UNIT)
    for _ in range(4):
        chain.node.close_ledger()
    return chain


def _everything_at_once(chain, alice, bob) -> None:
    """One ledger with payments and invocations that succeed and that fail."""
    carol = chain.open("carol")
    usdc = token_contract(USDC)
    for source, to, amount in ((alice, bob, UNIT), (bob, alice, 1000 * UNIT)):
        parties = [scval.to_address(each.public_key) for each in (source, to)]
        move = building.call(usdc, "transfer", *parties, scval.to_int128(amount))
        assert chain.submit(source, [move]).status == "PENDING"
    assert chain.submit(carol, [ChangeTrust(USDC)]).status == "PENDING"
    chain.node.close_ledger()


def watched_accounts() -> list[str]:
    """Accounts of the history, one of which holds nothing of ours."""
    return [address(name) for name in ("alice", "carol")]


@cache
def history_metas() -> tuple[bytes, ...]:
    """`LedgerCloseMeta` from ledger 2 on."""
    node = history().node
    return tuple(node.ledger(height).meta for height in range(FIRST, node.latest.sequence + 1))


@cache
def recorded_raws() -> dict[int, bytes]:
    """Sequence → `LedgerCloseMeta`, of the recorded pubnet ledgers."""
    raws = [raw for file in FILES for raw in recorded_ledgers(file)]
    return {block_of_meta(raw, PUBNET.id).height: raw for raw in raws}


def compressed(batch: bytes) -> bytes:
    """As Galexie writes an object: with a checksum, and without saying how long it is."""
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(batch)


def batch_of(metas: Sequence[bytes], first: int) -> bytes:
    """`LedgerCloseMetaBatch`."""
    head = (first, first + len(metas) - 1, len(metas))
    return b"".join(number.to_bytes(4, "big") for number in head) + b"".join(metas)


def write_lake(
    folder: Path,
    metas: Sequence[bytes],
    *,
    first: int = FIRST,
    per_batch: int = 1,
    per_partition: int = 1,
    suffix: str = "zst",
    passphrase: str = PASSPHRASE,
    configured: bool = True,
) -> str:
    """Write ledgers as Galexie does, whole batches alone; the lake's URL."""
    by_height = dict(enumerate(metas, start=first))
    start = first - first % per_batch
    for begin in range(start, first + len(metas), per_batch):
        end = begin + per_batch - 1
        heights = range(max(begin, first), end + 1)
        if end not in by_height:
            break
        path = folder / name_of(begin, end, per_batch, per_partition, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        batch = batch_of([by_height[height] for height in heights], heights[0])
        path.write_bytes(compressed(batch))
    if configured:
        configuration = {
            "networkPassphrase": passphrase,
            "version": "1.0",
            "compression": "zstd",
            "ledgersPerBatch": per_batch,
            "batchesPerPartition": per_partition,
        }
        (folder / ".config.json").write_text(json.dumps(configuration))
    return folder.as_uri()


def name_of(begin: int, end: int, per_batch: int, per_partition: int, suffix: str = "zst") -> str:
    """An object's name, written down here a second time."""
    stem = f"{0xFFFFFFFF - begin:08X}--{begin}" + (f"-{end}" if per_batch > 1 else "")
    if per_partition == 1:
        return f"{stem}.xdr.{suffix}"
    size = per_batch * per_partition
    low = begin // size * size
    return f"{0xFFFFFFFF - low:08X}--{low}-{low + size - 1}/{stem}.xdr.{suffix}"
