"""Versions of Stellar RPC and core, from getVersionInfo."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from indexer.chains.stellar.reader import StellarReader
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories.stellar_node import PASSPHRASE, FakeStellarNode, serving

CHAIN = replace(load_network("mainnet").stellar, passphrase=PASSPHRASE)


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=20)) as node:
        yield node


@pytest.mark.parametrize("version", ["27.1.1-7e712815", "v27.9.0", "23.0.4"])
def test_rpc_that_loses_events_is_refused(node: FakeStellarNode, version: str):
    node.version = version
    with (
        closing(StellarReader(CHAIN, [node.url])) as reader,
        pytest.raises(ConfigurationError) as refused,
    ):
        reader.check_identity()
    message = str(refused.value)
    assert message.startswith(
        f"ISTHMUS_RPC_STELLAR_PUBNET: {node.url.removeprefix('http://')} runs"
    )
    assert version.partition("-")[0] in message
    assert "use a node of 28.0.0 or newer" in message


@pytest.mark.parametrize("version", ["28.0.0", "30.0.0-4f524bba", "built here"])
def test_newer_and_unknown_rpc_is_taken(node: FakeStellarNode, version: str):
    node.version = version
    with closing(StellarReader(CHAIN, [node.url])) as reader:
        reader.check_identity()
        assert reader.head().height == 20


def test_next_node_is_asked_when_rpc_is_too_old(node: FakeStellarNode):
    node.version = "27.1.1"
    with (
        serving(FakeStellarNode(latest=21)) as newer,
        closing(StellarReader(CHAIN, [node.url, newer.url])) as reader,
    ):
        assert reader.head().height == 21


@pytest.mark.parametrize(
    "core", [f"stellar-core {NEWEST_PROTOCOL}.1.0 (3589a696)", "none", f"v{NEWEST_PROTOCOL}.0.0"]
)
def test_core_of_readable_protocol_is_no_upgrade(node: FakeStellarNode, core: str):
    node.core = core
    with closing(StellarReader(CHAIN, [node.url])) as reader:
        assert reader.upgrade_ahead() is None


def test_core_of_a_newer_protocol_is_an_upgrade(node: FakeStellarNode):
    ahead = NEWEST_PROTOCOL + 1
    node.core = f"stellar-core {ahead}.0.0 (3589a696)"
    with closing(StellarReader(CHAIN, [node.url])) as reader:
        upgrade = reader.upgrade_ahead()
    assert upgrade is not None
    assert upgrade.protocol == ahead
    assert f"is ready for protocol {ahead} (stellar-core {ahead}.0.0); this build reads up to" in (
        upgrade.detail
    )
    assert "The date of the upgrade is not known" in upgrade.detail
