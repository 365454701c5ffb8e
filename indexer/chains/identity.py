"""Checks that a node serves the configured chain. Errors name the variable of the node's URL."""

import re
from contextlib import closing

from indexer.chains.evm.jsonrpc import BatchRefused, JsonRpc, MethodNotFound
from indexer.chains.stellar.rpc import RequestRefused, StellarRpc, UnknownMethod
from indexer.config.networks import EvmChain, StellarChain, rpc_variable
from indexer.errors import (
    InconsistentAnswer,
    PermanentChainError,
    RetryableChainError,
    WrongChain,
)

_PROBE_SECONDS = 2.0
"""Timeout of the request that finds out whether a failing node is one of the other kind."""
_QUANTITY = re.compile(r"0x[0-9a-fA-F]+")


def check_evm_node(node: JsonRpc, chain: EvmChain) -> None:
    """Raise `WrongChain` unless the node serves that chain; other errors as `JsonRpc.call`."""
    variable = rpc_variable(chain.id)
    try:
        answer = node.call("eth_chainId", [])
    except (MethodNotFound, BatchRefused, InconsistentAnswer) as error:
        with closing(StellarRpc(node.url, timeout=_PROBE_SECONDS)) as probe:
            try:
                passphrase = probe.call("getNetwork", {}).get("passphrase")
            except (RetryableChainError, PermanentChainError):
                passphrase = None
        if not isinstance(passphrase, str):
            raise
        raise WrongChain(
            f"{variable} names a Stellar node: {node.host} serves {passphrase!r}, and {chain.id} "
            "is read from an EVM node"
        ) from error
    if not isinstance(answer, str) or not _QUANTITY.fullmatch(answer):
        raise InconsistentAnswer(f"{node.host}: {answer!r:.80} is no chain id")
    if int(answer, 16) != chain.number:
        raise WrongChain(f"{variable}: {node.host} serves eip155:{int(answer, 16)}, not {chain.id}")


def check_stellar_node(node: StellarRpc, chain: StellarChain) -> int:
    """The protocol version of the node's newest ledger.

    Raises `WrongChain` unless the node serves that chain; other errors as `StellarRpc.call`.
    """
    variable = rpc_variable(chain.id)
    try:
        network = node.call("getNetwork", {})
    except (UnknownMethod, RequestRefused) as error:
        with closing(JsonRpc(node.url, timeout=_PROBE_SECONDS)) as probe:
            try:
                answer = probe.call("eth_chainId", [])
            except (RetryableChainError, PermanentChainError):
                answer = None
        if not isinstance(answer, str) or not _QUANTITY.fullmatch(answer):
            raise
        raise WrongChain(
            f"{variable} names an EVM node: {node.host} serves eip155:{int(answer, 16)}, and"
            f" {chain.id} is read from a Stellar RPC node"
        ) from error
    passphrase, protocol = network.get("passphrase"), network.get("protocolVersion")
    if passphrase != chain.passphrase:
        raise WrongChain(
            f"{variable}: {node.host} serves {passphrase!r}, not {chain.id}'s {chain.passphrase!r}"
        )
    if not isinstance(protocol, int):
        raise InconsistentAnswer(f"{node.host} runs protocol {protocol!r}")
    return protocol
