"""Expiry of a Stellar transaction at the edge of the nodes' retention window."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from stellar_sdk.operation import BumpSequence

from devnet.stellar.genesis import Genesis
from devnet.stellar.node import Node, fixed_clock
from devnet.stellar.registry import unwired
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import load_network
from tests.devnet.stellar.chain import Chain
from warehouse_schema.identifiers import TxHash, UnixSeconds

STELLAR = load_network("devnet").stellar


@contextmanager
def nodes_of(chain: Chain, retention: int) -> Iterator[StellarAccountNodes]:
    """A node that serves the last `retention` ledgers."""
    server = DevnetServer(
        Rpc(chain.node, retention=retention), host="127.0.0.1", port=0, interval=None
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        with closing(StellarAccountNodes(STELLAR, [url], timeout=30.0)) as nodes:
            yield nodes
    finally:
        server.stop()
        thread.join()


def test_window_edge_of_same_second_is_not_expired() -> None:
    """Signed after one ledger, applied in the next, whose second the oldest one shares."""
    chain = Chain(node=Node(Genesis(unwired(), protocol=30), clock=fixed_clock))
    alice = chain.open("alice")
    signed_at = UnixSeconds(chain.now + 5)
    sent = chain.submit(alice, [BumpSequence(0)])
    for ms in range(3):
        chain.node.close_ledger(close_time_ms=signed_at * 1000 + ms)
    applied = chain.node.transaction(sent.hash)
    assert applied is not None
    assert applied.close_time == chain.now == signed_at
    chain.at(signed_at + 61)
    beyond_it = chain.node.latest.sequence - applied.ledger
    with nodes_of(chain, beyond_it) as nodes:
        tx = TxHash(sent.hash)
        assert not nodes.are_expired([tx], since=signed_at, last=UnixSeconds(signed_at + 60))
        assert nodes.are_expired(
            [tx], since=UnixSeconds(signed_at + 1), last=UnixSeconds(signed_at + 60)
        )
