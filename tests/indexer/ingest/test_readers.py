"""Readers of configured chains: required settings."""

from contextlib import closing

import pytest

from indexer.chains.evm.reader import EvmReader
from indexer.config.settings import Settings, load_settings
from indexer.errors import ConfigurationError
from indexer.ingest.readers import open_reader
from warehouse_schema.identifiers import ChainId

DEVNET = ChainId("eip155:31337")
ONE = "https://eu.node.example, https://us.node.example, wss://other.example"
TWO = "https://eu.node.example, https://other.example"


def settings(log_proof: str, nodes: str) -> Settings:
    return load_settings(
        {"ISTHMUS_LOG_PROOF_EIP155_31337": log_proof, "ISTHMUS_RPC_EIP155_31337": nodes}
    )


@pytest.mark.parametrize("log_proof", ["header", "operators"])
def test_log_proof_by_operators_with_one_operator_is_refused(log_proof: str) -> None:
    chosen = settings(log_proof, ONE)
    with pytest.raises(
        ConfigurationError, match=r"needs nodes of 2 operators: .* ISTHMUS_RPC_EIP155_31337"
    ):
        open_reader(chosen, chosen.network.chain(DEVNET))


@pytest.mark.parametrize(
    ("log_proof", "nodes"),
    [("header", TWO), ("operators", TWO), ("receipts", ONE), ("none", ONE)],
)
def test_log_proof_with_enough_operators_is_opened(log_proof: str, nodes: str) -> None:
    chosen = settings(log_proof, nodes)
    reader = open_reader(chosen, chosen.network.chain(DEVNET))
    assert isinstance(reader, EvmReader)
    with closing(reader):
        assert reader.config.log_proof == log_proof
