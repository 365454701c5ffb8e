"""The blocks of running chains that a generated history leads up to."""

from base64 import b64decode

from stellar_sdk import xdr

from devnet.evm_node import JsonRpc
from devnet.stellar.protocol30 import read
from devnet.world import World
from indexer.chains.raw import Block
from indexer.config.networks import Network
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds


def top_blocks(network: Network, world: World) -> dict[ChainId, Block]:
    """The last block before each chain's events, by chain, of a world with an origin.

    The EVM chain's is its first block. The Stellar chain's is the ledger of genesis, which no node
    serves: the ledger after it names its hash.
    """
    origin = world.origin
    assert origin is not None
    (evm,), stellar = network.evm, network.stellar
    height = Height(origin.height)
    with JsonRpc(world.evm_url) as rpc:
        first = rpc("eth_getBlockByNumber", hex(height), False)
    server = world.stellar.server
    (ledger,) = server.get_ledgers(start_ledger=height + 1, limit=1).ledgers
    raw = b64decode(ledger.header_xdr)
    after = read(xdr.LedgerHeaderHistoryEntry, raw).header
    return {
        evm.id: Block(
            chain=evm.id,
            height=height,
            hash=BlockHash(first["hash"]),
            parent_hash=BlockHash(first["parentHash"]),
            time=UnixSeconds(int(first["timestamp"], 16)),
        ),
        stellar.id: Block(
            chain=stellar.id,
            height=height,
            hash=BlockHash(after.previous_ledger_hash.hash.hex()),
            parent_hash=BlockHash(""),
            time=UnixSeconds(origin.stellar_time),
            protocol_version=after.ledger_version.uint32,
        ),
    }
