"""Which chain a node serves: asked before a node is believed, and named when it is another's.

What is raised names the variable that holds the node's URL, and what was found there.
"""

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
"""Time-out of the question what a node is that does not answer as one of its kind."""
_QUANTITY = re.compile(r"0x[0-9a-fA-F]+")


def check_evm_node(node: JsonRpc, chain: EvmChain) -> None:
    """Raise `WrongChain` unless the node serves that chain; other errors as `JsonRpc.call`."""
    variable = rpc_variable(chain.id)
    try:
        answer = node.call("eth_chainId", [])
    except (MethodNotFound, BatchRefused, InconsistentAnswer) as error:
        passphrase = _stellar_passphrase(node.url)
        if passphrase is None:
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
    """The protocol of the node's newest ledger.

    Raises `WrongChain` unless the node serves that chain; other errors as `StellarRpc.call`.
    """
    variable = rpc_variable(chain.id)
    try:
        network = node.call("getNetwork", {})
    except (UnknownMethod, RequestRefused) as error:
        number = _evm_chain_number(node.url)
        if number is None:
            raise
        raise WrongChain(
            f"{variable} names an EVM node: {node.host} serves eip155:{number}, and {chain.id} is "
            "read from a Stellar RPC node"
        ) from error
    passphrase, protocol = network.get("passphrase"), network.get("protocolVersion")
    if passphrase != chain.passphrase:
        raise WrongChain(
            f"{variable}: {node.host} serves {passphrase!r}, not {chain.id}'s {chain.passphrase!r}"
        )
    if not isinstance(protocol, int):
        raise InconsistentAnswer(f"{node.host} runs protocol {protocol!r}")
    return protocol


def _stellar_passphrase(url: str) -> str | None:
    """What a Stellar node calls its network; None for any other answer."""
    with closing(StellarRpc(url, timeout=_PROBE_SECONDS)) as node:
        try:
            passphrase = node.call("getNetwork", {}).get("passphrase")
        except (RetryableChainError, PermanentChainError):
            return None
    return passphrase if isinstance(passphrase, str) else None


def _evm_chain_number(url: str) -> int | None:
    """The chain id of an EVM node; None for any other answer."""
    with closing(JsonRpc(url, timeout=_PROBE_SECONDS)) as node:
        try:
            answer = node.call("eth_chainId", [])
        except (RetryableChainError, PermanentChainError):
            return None
    is_quantity = isinstance(answer, str) and _QUANTITY.fullmatch(answer)
    return int(answer, 16) if is_quantity else None
