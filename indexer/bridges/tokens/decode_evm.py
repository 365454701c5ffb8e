"""Logs of ERC-20 tokens."""

from collections.abc import Mapping

from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.evm import abi
from indexer.chains.evm.abi import LogDecoder
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from warehouse_schema.identifiers import EvmAddress


def _transfer(log: EvmLog, _chain: EvmChain) -> Erc20Transfer:
    _, sender, recipient = abi.topics(log, 3, words=1)
    return Erc20Transfer(
        seen=log.seen,
        token=log.address,
        sender=EvmAddress(abi.topic_address(sender)),
        recipient=EvmAddress(abi.topic_address(recipient)),
        amount=abi.amount(log, 0),
    )


_TOKEN_EVENTS: Mapping[str, LogDecoder] = {"Transfer(address,address,uint256)": _transfer}

DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    "usdc": _TOKEN_EVENTS,
    "usdt0": _TOKEN_EVENTS,
}
"""Field of `EvmChain` that names the contract → event signature → decoder."""
