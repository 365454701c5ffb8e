"""Logs of our DepositFactory."""

from collections.abc import Mapping

from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.chains.evm import abi
from indexer.chains.evm.abi import LogDecoder
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from warehouse_schema.identifiers import EvmAddress


def _refunded(log: EvmLog, chain: EvmChain) -> DepositRefunded | None:
    _, deposit, token_topic = abi.topics(log, 3, words=2)
    token = EvmAddress(abi.topic_address(token_topic))
    # Other tokens can report any balance; the native coin is the zero address.
    if token not in chain.tokens:
        return None
    return DepositRefunded(
        seen=log.seen,
        deposit=EvmAddress(abi.topic_address(deposit)),
        token=token,
        refund_to=EvmAddress(abi.address(log, 0)),
        amount=abi.amount(log, 1),
    )


DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    "deposit_factory": {
        "Refunded(address,address,address,uint256)": _refunded,
    },
}
"""Field of `EvmChain` that names the contract → event signature → decoder."""
