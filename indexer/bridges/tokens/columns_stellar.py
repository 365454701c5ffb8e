"""Layout of transfers of tokens on Stellar for the columnar decoder.

`decode_stellar` decodes them one by one, and all other events of tokens.
"""

import polars as pl

from indexer.addresses import asset_contract
from indexer.chains.layouts import EventLayout, Field, LayoutTable, topic
from indexer.chains.stellar.xdr.scval_columns import (
    address,
    amount_and_muxed_id,
    string_digits,
    strkey_of_digits,
)
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import AssetId, StellarAddress


def _transfer(chain: StellarChain, asset: AssetId, contract: StellarAddress | None) -> EventLayout:
    name = asset.removeprefix("stellar:")
    code, _, issuer = name.partition(":")
    # An asset's name counts only from the contract that derives from it.
    is_of_asset = contract == asset_contract(code, StellarAddress(issuer), chain.passphrase)
    moved, muxed_id = amount_and_muxed_id(pl.col("value").str.slice(2))
    return EventLayout(
        "AssetMovement",
        topics=4,
        fits=[pl.lit(is_of_asset), topic(3) == string_digits(name)],
        fields={
            "kind": Field(pl.lit("transfer")),
            "contract": Field(pl.col("contract")),
            "asset": Field(pl.lit(asset)),
            "sender": address(topic(1)),
            "recipient": address(topic(2)),
            "amount": moved,
            "to_muxed_id": muxed_id,
        },
        computed={"sender": strkey_of_digits, "recipient": strkey_of_digits},
    )


def _usdt0_transfer(chain: StellarChain) -> EventLayout:
    if chain.usdt0 is None:
        raise ValueError(f"{chain.id} has a contract of USDT0 and no asset")
    return _transfer(chain, chain.usdt0, chain.usdt0_contract)


LAYOUTS: LayoutTable = {
    "usdc_contract": {"transfer": lambda chain: _transfer(chain, chain.usdc, chain.usdc_contract)},
    "usdt0_contract": {"transfer": _usdt0_transfer},
}
