"""Layout of ERC-20 transfers for the columnar decoder; `decode_evm` decodes single logs."""

import polars as pl

from indexer.chains.evm.abi_columns import (
    EventLayout,
    Field,
    LayoutTable,
    address,
    amount,
    topic,
    word,
)

_TOKEN_EVENTS = {
    "Transfer(address,address,uint256)": EventLayout(
        "Erc20Transfer",
        topics=3,
        words=1,
        fields={
            "token": Field(pl.col("address")),
            "sender": address(topic(1)),
            "recipient": address(topic(2)),
            "amount": amount(word(0)),
        },
    ),
}

LAYOUTS: LayoutTable = {"usdc": _TOKEN_EVENTS, "usdt0": _TOKEN_EVENTS}
