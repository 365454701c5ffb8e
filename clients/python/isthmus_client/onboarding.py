"""Verification of a sponsored trustline: the transaction opens it and does nothing else.

The sponsor is its source and pays its sequence number and fee. Each operation is built here and
compared, and there are no others: the owner's signature cannot move the owner's assets.
"""

from stellar_sdk import Asset, Transaction
from stellar_sdk.operation import (
    BeginSponsoringFutureReserves,
    ChangeTrust,
    CreateAccount,
    EndSponsoringFutureReserves,
)

from isthmus_client.contracts import Bridges
from isthmus_client.errors import ActionNotTrusted
from isthmus_client.models import StellarTrustline
from isthmus_client.verify import Deposit
from isthmus_client.verify_stellar import asset_of, check_conditions, read_transaction


def check_onboarding(shown: StellarTrustline, wanted: Deposit, bridges: Bridges, now: int) -> None:
    """Raises `ActionNotTrusted` unless signing it opens that trustline and does nothing else.

    `now` is in unix seconds.
    """
    stellar = bridges.stellar
    if shown.network_passphrase != stellar.network:
        raise ActionNotTrusted(f"it is for the network {shown.network_passphrase!r}")
    asset = asset_of(wanted.route, stellar)
    if shown.asset != f"stellar:{asset.code}:{asset.issuer}":
        raise ActionNotTrusted(f"{wanted.route} needs no trustline for {shown.asset}")
    transaction = read_transaction(shown.xdr, stellar.network)
    check_conditions(transaction, now)
    _check_operations(transaction, wanted.recipient, asset)


def _check_operations(transaction: Transaction, owner: str, asset: Asset) -> None:
    source = transaction.source
    if source.account_id == owner or source.account_muxed_id is not None:
        raise ActionNotTrusted("it is no transaction of a sponsor's")
    given = [each.to_xdr_object() for each in transaction.operations]
    expected = (_operations(source.account_id, owner, asset, is_new=new) for new in (False, True))
    if given not in list(expected):
        raise ActionNotTrusted("it does something else than to open the trustline")


def _operations(sponsor: str, owner: str, asset: Asset, *, is_new: bool) -> list[object]:
    """As XDR; the account is created with nothing on it."""
    creation = [CreateAccount(owner, "0", source=sponsor)] if is_new else []
    operations = (
        BeginSponsoringFutureReserves(owner, source=sponsor),
        *creation,
        ChangeTrust(asset, source=owner),
        EndSponsoringFutureReserves(source=owner),
    )
    return [each.to_xdr_object() for each in operations]
