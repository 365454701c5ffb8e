"""Checks that a node serves the configured chain. Errors name the variable of the node's URL."""

from contextlib import closing

from indexer.chains.evm.jsonrpc import BatchRefused, JsonRpc, MethodNotFound, parse_quantity
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
    number = parse_quantity(answer, node.host)
    if number != chain.number:
        raise WrongChain(f"{variable}: {node.host} serves eip155:{number}, not {chain.id}")


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
                number = parse_quantity(probe.call("eth_chainId", []), node.host)
            except (RetryableChainError, PermanentChainError):
                raise error from None
        raise WrongChain(
            f"{variable} names an EVM node: {node.host} serves eip155:{number}, and {chain.id} is"
            " read from a Stellar RPC node"
        ) from error
    passphrase, protocol = network.get("passphrase"), network.get("protocolVersion")
    if passphrase != chain.passphrase:
        raise WrongChain(
            f"{variable}: {node.host} serves {passphrase!r}, not {chain.id}'s {chain.passphrase!r}"
        )
    if not isinstance(protocol, int):
        raise InconsistentAnswer(f"{node.host} runs protocol {protocol!r}")
    return protocol
