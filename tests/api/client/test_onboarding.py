"""The client signs only for a trustline of its own."""

from collections.abc import Sequence
from typing import Any

import pytest
from stellar_sdk import Account, Asset, Keypair, TransactionBuilder
from stellar_sdk.memo import TextMemo
from stellar_sdk.operation import (
    BeginSponsoringFutureReserves,
    ChangeTrust,
    CreateAccount,
    EndSponsoringFutureReserves,
    Payment,
    SetOptions,
)

from indexer.actions.onboarding import OnboardingTerms, onboarding_tx
from indexer.addresses import stellar_account
from isthmus_client import ActionNotTrusted, Deposit
from isthmus_client.contracts import MAINNET as KNOWN
from isthmus_client.contracts import TESTNET as KNOWN_FOR_TESTS
from isthmus_client.models import StellarTrustline
from isthmus_client.onboarding import check_onboarding
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TRANSFER
from warehouse_schema.identifiers import UnixSeconds

NOW = 1_800_000_000
ME = OWNER
SPONSOR = Keypair.from_raw_ed25519_seed(bytes([5] * 32))
STRANGER = Keypair.from_raw_ed25519_seed(bytes([6] * 32)).public_key
PASSPHRASE = MAINNET.stellar.passphrase
USDC = Asset("USDC", str(MAINNET.stellar.usdc).rpartition(":")[2])
WANTED = Deposit(TRANSFER, "usdc-deposit", ETHEREUM, PAYER, ME, 20_000_000, 199_900_000)


def made(
    operations: Sequence[Any],
    *,
    source: str = SPONSOR.public_key,
    until: int = NOW + 180,
    **how: Any,
) -> StellarTrustline:
    builder = TransactionBuilder(Account(source, 6), PASSPHRASE, 10_000)
    builder.add_time_bounds(0, until)
    for operation in operations:
        builder.append_operation(operation)
    if how.get("memo"):
        builder.add_memo(TextMemo("7"))
    if how.get("min_sequence"):
        builder.set_min_sequence_number(1)
    envelope = builder.build()
    return StellarTrustline(
        kind="stellar_trustline",
        asset=how.get("asset", f"stellar:USDC:{USDC.issuer}"),
        xdr=envelope.to_xdr(),
        network_passphrase=how.get("passphrase", PASSPHRASE),
    )


def issued(*, is_new: bool = True) -> list[Any]:
    """As the service makes it."""
    asset: Any = MAINNET.stellar.usdc
    by = stellar_account(SPONSOR.public_key)
    shown = OnboardingTerms(by, 7, is_new, UnixSeconds(0), UnixSeconds(NOW + 180))
    made = onboarding_tx(PASSPHRASE, stellar_account(ME), asset, shown)
    return [*TransactionBuilder.from_xdr(made.envelope, PASSPHRASE).transaction.operations]


def begun(by: str = SPONSOR.public_key) -> Any:
    return BeginSponsoringFutureReserves(ME, source=by)


ENDED = EndSponsoringFutureReserves(source=ME)


@pytest.mark.parametrize("is_new", [False, True])
def test_issued_onboarding_is_verified(is_new):
    check_onboarding(made(issued(is_new=is_new)), WANTED, KNOWN, NOW)


HOSTILE: dict[str, Any] = {
    "a payment beside it": lambda: made([*issued(), Payment(STRANGER, USDC, "1", source=ME)]),
    "a payment in its middle": lambda: made(
        [*issued()[:-1], Payment(STRANGER, USDC, "1", source=ME), ENDED]
    ),
    "another signer": lambda: made([begun(), SetOptions(master_weight=0, source=ME), ENDED]),
    "another asset": lambda: made(
        [begun(), ChangeTrust(Asset("USDC", STRANGER), source=ME), ENDED]
    ),
    "a limit": lambda: made([begun(), ChangeTrust(USDC, "1", source=ME), ENDED]),
    "no sponsor": lambda: made([ChangeTrust(USDC, source=ME)]),
    "a sponsor who is somebody else": lambda: made(
        [begun(STRANGER), ChangeTrust(USDC, source=ME), ENDED]
    ),
    "somebody else's trustline": lambda: made([begun(), ChangeTrust(USDC, source=STRANGER), ENDED]),
    "somebody else's account": lambda: made(
        [begun(), CreateAccount(STRANGER, "0", source=SPONSOR.public_key), *issued()[2:]]
    ),
    "a sponsorship that does not end": lambda: made(issued()[:-1]),
    "nothing": lambda: made([ENDED]),
    "the owner's number": lambda: made(issued(), source=ME),
    "a memo": lambda: made(issued(), memo=True),
    "another condition": lambda: made(issued(), min_sequence=True),
    "no end": lambda: made(issued(), until=0),
    "an end that is past": lambda: made(issued(), until=NOW),
    "an end that is far off": lambda: made(issued(), until=NOW + 10**6),
    "another network": lambda: made(issued(), passphrase="Test SDF Network ; September 2015"),
    "an asset that it does not open": lambda: made(issued(), asset=f"stellar:USDC:{STRANGER}"),
    "no transaction": lambda: made(issued()).model_copy(update={"xdr": "AAAA"}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_altered_onboarding_is_refused(case):
    with pytest.raises(ActionNotTrusted):
        check_onboarding(HOSTILE[case](), WANTED, KNOWN, NOW)


def test_fee_bump_is_refused():
    inner = TransactionBuilder.from_xdr(made(issued()).xdr, PASSPHRASE)
    bump = TransactionBuilder.build_fee_bump_transaction(SPONSOR, 20_000, inner, PASSPHRASE)
    shown = made(issued()).model_copy(update={"xdr": bump.to_xdr()})
    with pytest.raises(ActionNotTrusted, match="fee bump"):
        check_onboarding(shown, WANTED, KNOWN, NOW)


def test_asset_missing_on_network_is_refused():
    wanted = Deposit(TRANSFER, "usdt0-deposit", ETHEREUM, PAYER, ME, 1, 1)
    passphrase = KNOWN_FOR_TESTS.stellar.network
    with pytest.raises(ActionNotTrusted, match="no asset of usdt0-deposit"):
        check_onboarding(made(issued(), passphrase=passphrase), wanted, KNOWN_FOR_TESTS, NOW)
