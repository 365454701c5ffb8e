"""Layout of ERC-20 transfers for the columnar decoder; `decode_evm` decodes single logs."""

import polars as pl

from indexer.chains.evm.abi_columns import (
    address,
    amount,
    has_words,
    word,
)
from indexer.chains.layouts import (
    EventLayout,
    Field,
    LayoutTable,
    topic,
)

_TOKEN_EVENTS = {
    "Transfer(address,address,uint256)": EventLayout(
        "Erc20Transfer",
        topics=3,
        fits=[has_words(1)],
        fields={
            "token": Field(pl.col("address")),
            "sender": address(topic(1)),
            "recipient": address(topic(2)),
            "amount": amount(word(0)),
        },
    ),
}

LAYOUTS: LayoutTable = {"usdc": _TOKEN_EVENTS, "usdt0": _TOKEN_EVENTS}
