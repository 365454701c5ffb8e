"""Layout of the deposit factory's event for the columnar decoder."""

from indexer.chains.evm.abi_columns import (
    address,
    amount,
    has_words,
    word,
)
from indexer.chains.layouts import EventLayout, LayoutTable, topic
from indexer.config.networks import EvmChain


def _refunded(chain: EvmChain) -> EventLayout:
    token = address(topic(2))
    return EventLayout(
        "DepositRefunded",
        topics=3,
        fits=[has_words(2)],
        is_ours=token.value.is_in(chain.tokens),
        fields={
            "deposit": address(topic(1)),
            "token": token,
            "refund_to": address(word(0)),
            "amount": amount(word(1)),
        },
    )


LAYOUTS: LayoutTable = {
    "deposit_factory": {"Refunded(address,address,address,uint256)": _refunded},
}
