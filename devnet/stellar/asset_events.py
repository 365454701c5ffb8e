"""The unified asset events of CAP-67: classic operations, token contracts and fees alike.

An event is emitted by the asset's token contract, deployed or not; its last topic is the SEP-11
name of the asset. Amounts are stroops.
"""

from functools import cache

from stellar_sdk import Address, Asset, scval, xdr

from devnet.stellar.accounts import PASSPHRASE, XLM


@cache
def token_contract(asset: Asset) -> str:
    """The `C…` id of an asset's token contract on the devnet."""
    return asset.contract_id(PASSPHRASE)


@cache
def asset_name(asset: Asset) -> str:
    """`native` or `CODE:ISSUER` (SEP-11)."""
    return "native" if asset.is_native() else f"{asset.code}:{asset.issuer}"


def contract_event(contract: str, topics: list[xdr.SCVal], data: xdr.SCVal) -> xdr.ContractEvent:
    """A contract event as it stands in the ledger's meta."""
    sc_address = Address(contract).to_xdr_sc_address()
    return xdr.ContractEvent(
        ext=xdr.ExtensionPoint(0),
        contract_id=sc_address.contract_id,
        type=xdr.ContractEventType.CONTRACT,
        body=xdr.ContractEventBody(0, v0=xdr.ContractEventV0(topics, data)),
    )


def _asset_event(
    asset: Asset, name: str, parties: list[str], data: xdr.SCVal, *, named: bool = True
) -> xdr.ContractEvent:
    topics = [scval.to_symbol(name), *(scval.to_address(party) for party in parties)]
    if named:
        topics.append(scval.to_string(asset_name(asset)))
    return contract_event(token_contract(asset), topics, data)


def movement(
    asset: Asset, sender: str, receiver: str, amount: int, to_muxed_id: xdr.SCVal | None = None
) -> xdr.ContractEvent:
    """`transfer`, or `mint` and `burn` when one side alone is the asset's issuer.

    `sender` and `receiver` are unmuxed strkeys.
    """
    issuer = asset.issuer
    if sender != receiver and issuer == sender:
        return mint(asset, receiver, amount, to_muxed_id)
    if sender != receiver and issuer == receiver:
        return burn(asset, sender, amount)
    return _asset_event(asset, "transfer", [sender, receiver], _received(amount, to_muxed_id))


def mint(
    asset: Asset, receiver: str, amount: int, to_muxed_id: xdr.SCVal | None = None
) -> xdr.ContractEvent:
    """`mint`: the asset comes into being at `receiver`."""
    return _asset_event(asset, "mint", [receiver], _received(amount, to_muxed_id))


def burn(asset: Asset, sender: str, amount: int) -> xdr.ContractEvent:
    """`burn`: the asset ends with `sender`."""
    return _asset_event(asset, "burn", [sender], scval.to_int128(amount))


def set_authorized(asset: Asset, holder: str, authorized: bool) -> xdr.ContractEvent:
    """`set_authorized`: the issuer lets a holder use the asset, or no longer."""
    return _asset_event(asset, "set_authorized", [holder], scval.to_bool(authorized))


def fee(account: str, amount: int) -> xdr.ContractEvent:
    """A charge, or a refund when `amount` is negative; it carries no asset name."""
    return _asset_event(XLM, "fee", [account], scval.to_int128(amount), named=False)


def _received(amount: int, to_muxed_id: xdr.SCVal | None) -> xdr.SCVal:
    if to_muxed_id is None:
        return scval.to_int128(amount)
    return scval.to_struct({"amount": scval.to_int128(amount), "to_muxed_id": to_muxed_id})


def muxed_id(destination: xdr.MuxedAccount, memo: xdr.Memo) -> xdr.SCVal | None:
    """The receiver's id in a classic payment: the M id, else the memo."""
    if destination.med25519 is not None:
        return scval.to_uint64(destination.med25519.id.uint64)
    kind = xdr.MemoType
    if memo.type == kind.MEMO_ID and memo.id is not None:
        return scval.to_uint64(memo.id.uint64)
    if memo.type == kind.MEMO_TEXT and memo.text is not None:
        return scval.to_string(memo.text)
    if memo.type == kind.MEMO_HASH and memo.hash is not None:
        return scval.to_bytes(memo.hash.hash)
    if memo.type == kind.MEMO_RETURN and memo.ret_hash is not None:
        return scval.to_bytes(memo.ret_hash.hash)
    return None
