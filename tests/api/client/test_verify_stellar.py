"""The client verifies the Stellar transaction that a server shows before it signs it."""

from dataclasses import replace
from typing import Any

import pytest
from stellar_sdk import Address, Asset, Keypair, TransactionBuilder, scval, xdr
from stellar_sdk.memo import TextMemo
from stellar_sdk.operation import InvokeHostFunction, ManageData, Payment, SetOptions
from stellar_sdk.preconditions import Preconditions
from stellar_sdk.time_bounds import TimeBounds

from indexer.actions.stellar_orders import (
    SendOnStellar,
    approval,
    operation_of,
    stellar_order,
)
from indexer.actions.stellar_tx import complete_tx, draft
from indexer.chains.stellar.xdr.simulation import SimulationResult
from indexer.config.networks import load_network
from isthmus_client import ActionNotTrusted
from isthmus_client.contracts import MAINNET as KNOWN
from isthmus_client.contracts import TESTNET as KNOWN_FOR_TESTS
from isthmus_client.models import StellarTx
from isthmus_client.verify_stellar import LONGEST_SECONDS, MOST_FEE, Outgoing, check_transaction
from tests.factories.actions import MAINNET, OWNER, PAYER, TRANSFER, make_withdrawal
from warehouse_schema.identifiers import BaseUnits, Height, StellarAddress, Stroops, UnixSeconds

NOW = 1_800_000_000
PASSPHRASE = MAINNET.stellar.passphrase
FRIEND = StellarAddress(Keypair.from_raw_ed25519_seed(bytes([5] * 32)).public_key)
STRANGER = StellarAddress(Keypair.from_raw_ed25519_seed(bytes([6] * 32)).public_key)
ME = StellarAddress(OWNER)
MECHANISMS = {"usdc-withdraw": "cctp", "usdt0-withdraw": "oft", "usdc-send": "payment"}


def meant(route: Any = "usdc-withdraw", **changes: Any) -> Outgoing:
    is_send = route.endswith("-send")
    usual = Outgoing(
        transfer=TRANSFER,
        route=route,
        account=ME,
        chain="stellar:pubnet" if is_send else "eip155:1",
        recipient=FRIEND if is_send else PAYER,
        amount=200_000_000,
        least={"usdc-withdraw": 19_990_000, "usdt0-withdraw": 20_000_000}.get(route, 200_000_000),
        native_fee=5_000_000,
    )
    return replace(usual, **changes)


def order_of(route: str) -> Any:
    to: dict[str, Any] = {"dest_address": FRIEND} if route.endswith("-send") else {}
    return stellar_order(MAINNET, make_withdrawal(mechanism=MECHANISMS[route], **to))


BURN, SEND, PAY = order_of("usdc-withdraw"), order_of("usdt0-withdraw"), order_of("usdc-send")
APPROVE: Any = approval(BURN, BaseUnits(0), Height(50))


def consent(call: xdr.InvokeContractArgs, *below: xdr.SorobanAuthorizedInvocation) -> Any:
    kind = xdr.SorobanAuthorizedFunctionType.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CONTRACT_FN
    function = xdr.SorobanAuthorizedFunction(kind, contract_fn=call)
    return xdr.SorobanAuthorizedInvocation(function, list(below))


def entry(root: xdr.SorobanAuthorizedInvocation, credentials: Any = None) -> bytes:
    own = xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
    return xdr.SorobanAuthorizationEntry(
        credentials or xdr.SorobanCredentials(own), root
    ).to_xdr_bytes()


def called(contract: str, function: str, *arguments: xdr.SCVal) -> xdr.InvokeContractArgs:
    return xdr.InvokeContractArgs(
        Address(contract).to_xdr_sc_address(), xdr.SCSymbol(function.encode()), list(arguments)
    )


def data(fee: int) -> bytes:
    nothing = xdr.Uint32(0)
    resources = xdr.SorobanResources(xdr.LedgerFootprint([], []), nothing, nothing, nothing)
    ext = xdr.SorobanTransactionDataExt(0)
    return xdr.SorobanTransactionData(ext, resources, xdr.Int64(fee)).to_xdr_bytes()


def taken_by(step: Any) -> list[xdr.SorobanAuthorizedInvocation]:
    """What is authorised below a send: the burn and the fee."""
    if not isinstance(step, SendOnStellar):
        return []
    me, oft = scval.to_address(ME), scval.to_address(step.oft)
    token = MAINNET.stellar.usdt0_contract
    native = Asset.native().contract_id(PASSPHRASE)
    return [
        consent(called(str(token), "burn", me, scval.to_int128(step.amount))),
        consent(called(native, "transfer", me, oft, scval.to_int128(step.native_fee))),
    ]


def shown(step: Any, *, below: Any = None, fee: int = 50_000, until: int = NOW + 1_800) -> str:
    """What the service issues of a step."""
    operation = operation_of(step, ME)
    drafted = draft(PASSPHRASE, ME, 7, UnixSeconds(until), [operation])
    if not isinstance(operation, InvokeHostFunction):
        return drafted.envelope
    call = operation.host_function.invoke_contract
    assert call is not None
    root = consent(call, *(taken_by(step) if below is None else below))
    found = SimulationResult(b"", data(fee), Stroops(fee), (entry(root),))
    return complete_tx(PASSPHRASE, drafted, found).envelope


def check(text: str, wanted: Outgoing, network: str = PASSPHRASE) -> None:
    action = StellarTx(kind="stellar_tx", xdr=text, network_passphrase=network)
    check_transaction(action, wanted, KNOWN, NOW)


def refused(text: str, wanted: Outgoing, **others: Any) -> str:
    with pytest.raises(ActionNotTrusted) as error:
        check(text, wanted, **others)
    return str(error.value)


@pytest.mark.parametrize(
    ("step", "route"),
    [
        (APPROVE, "usdc-withdraw"),
        (BURN, "usdc-withdraw"),
        (SEND, "usdt0-withdraw"),
        (PAY, "usdc-send"),
    ],
)
def test_issued_transaction_is_verified(step, route):
    check(shown(step), meant(route))


@pytest.mark.parametrize(("known", "name"), [(KNOWN, "mainnet"), (KNOWN_FOR_TESTS, "testnet")])
def test_known_contracts_equal_the_network_file(known, name):
    network = load_network(name)
    stellar, at = network.stellar, known.stellar
    assert (at.network, at.messenger) == (stellar.passphrase, stellar.cctp_token_messenger)
    assert Asset("USDC", at.usdc).contract_id(at.network) == stellar.usdc_contract
    assert at.oft == stellar.oft
    if stellar.usdt0 is not None:
        assert f"stellar:USDT0:{at.usdt0}" == stellar.usdt0
        assert Asset("USDT0", at.usdt0).contract_id(at.network) == stellar.usdt0_contract
    for chain in network.evm:
        bridges = known.evm[chain.id]
        assert bridges.cctp_domain in (chain.cctp_domain, None)
        assert bridges.lz_eid in (chain.lz_eid, None)
        assert (bridges.cctp_domain is None) == (chain.cctp_token_messenger is None)
        assert (bridges.lz_eid is None) == (chain.oft is None)


WORD = "0x" + "00" * 12 + "0d" * 20
ELSEWHERE = str(MAINNET.stellar.oft)
HOSTILE: dict[str, tuple[str, Any]] = {
    "more is approved": ("usdc-withdraw", replace(APPROVE, amount=BaseUnits(200_000_010))),
    "for somebody else": ("usdc-withdraw", replace(APPROVE, spender=ELSEWHERE)),
    "of another token": ("usdc-withdraw", replace(APPROVE, token=MAINNET.stellar.usdt0_contract)),
    "more is burned": ("usdc-withdraw", replace(BURN, amount=BURN.amount + 10)),
    "less is burned": ("usdc-withdraw", replace(BURN, amount=BURN.amount - 10)),
    "to another chain": ("usdc-withdraw", replace(BURN, domain=6)),
    "to somebody on it": ("usdc-withdraw", replace(BURN, mint_recipient=WORD)),
    "another token is": ("usdc-withdraw", replace(BURN, token=MAINNET.stellar.usdt0_contract)),
    "for a higher fee": ("usdc-withdraw", replace(BURN, max_fee=BURN.max_fee + 1)),
    "for a fee below nothing": ("usdc-withdraw", replace(BURN, max_fee=-1)),
    "at no known speed": ("usdc-withdraw", replace(BURN, min_finality=500)),
    "for another transfer": ("usdc-withdraw", replace(BURN, hook_data=bytes(16))),
    "with a longer hook": ("usdc-withdraw", replace(BURN, hook_data=BURN.hook_data + b"x")),
    "by another contract": ("usdc-withdraw", replace(BURN, messenger=ELSEWHERE)),
    "more is sent": ("usdt0-withdraw", replace(SEND, amount=SEND.amount + 10)),
    "less arrives": ("usdt0-withdraw", replace(SEND, min_amount=SEND.min_amount - 10)),
    "for a dearer message": ("usdt0-withdraw", replace(SEND, native_fee=5_000_001)),
    "elsewhere": ("usdt0-withdraw", replace(SEND, eid=30110)),
    "to somebody there": ("usdt0-withdraw", replace(SEND, to=WORD)),
    "by no OFT": ("usdt0-withdraw", replace(SEND, oft=MAINNET.stellar.cctp_token_messenger)),
    "a burn where a send was meant": ("usdt0-withdraw", BURN),
    "a payment where a burn was meant": ("usdc-withdraw", PAY),
    "a stranger is paid": ("usdc-send", replace(PAY, to=STRANGER)),
    "more is paid": ("usdc-send", replace(PAY, amount=BaseUnits(200_000_001))),
    "another asset is paid": ("usdc-send", replace(PAY, asset=MAINNET.stellar.usdt0)),
    "a call where a payment was meant": ("usdc-send", SEND),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_altered_step_is_refused(name):
    route, step = HOSTILE[name]
    refused(shown(step), meant(route))


def changed(step: Any, change: Any) -> str:
    """An issued transaction, changed before it is shown."""
    envelope: Any = TransactionBuilder.from_xdr(shown(step), PASSPHRASE)
    change(envelope.transaction)
    return str(envelope.to_xdr())


@pytest.mark.parametrize(
    "until", [scval.to_int128(2**40), scval.to_int128(-1), scval.to_void(), scval.to_string("now")]
)
def test_bad_approval_expiry_is_refused(until):
    def change(tx: Any) -> None:
        tx.operations[0].host_function.invoke_contract.args[3] = until

    assert "argument 3" in refused(changed(APPROVE, change), meant())


def test_changed_source_fee_or_operations_are_refused():
    def source(tx: Any) -> None:
        tx.source = type(tx.source)(STRANGER)

    def muxed(tx: Any) -> None:
        tx.source = type(tx.source)(ME, 7)

    def second(tx: Any) -> None:
        tx.operations.append(Payment(STRANGER, Asset.native(), "1"))

    def for_another(tx: Any) -> None:
        tx.operations[0].source = type(tx.source)(STRANGER)

    def dear(tx: Any) -> None:
        tx.fee = MOST_FEE + 1

    def timeless(tx: Any) -> None:
        tx.preconditions = None

    def forever(tx: Any) -> None:
        tx.preconditions = Preconditions(time_bounds=TimeBounds(0, 0))

    def too_long(tx: Any) -> None:
        latest = NOW + LONGEST_SECONDS + 1
        tx.preconditions = Preconditions(time_bounds=TimeBounds(0, latest))

    def later(tx: Any) -> None:
        tx.preconditions.min_sequence_age = 60

    for change in (source, muxed, second, for_another, dear, timeless, forever, too_long, later):
        refused(changed(PAY, change), meant("usdc-send"))
    check(changed(PAY, lambda tx: None), meant("usdc-send"))


@pytest.mark.parametrize(
    "operation", [SetOptions(master_weight=0), ManageData("config", "1")], ids=["keys", "data"]
)
def test_other_operation_is_refused(operation):
    envelope = draft(PASSPHRASE, ME, 7, UnixSeconds(NOW + 60), [operation]).envelope
    assert type(operation).__name__ in refused(envelope, meant("usdc-send"))


def test_payment_with_memo_is_refused():
    text = changed(PAY, lambda tx: setattr(tx, "memo", TextMemo("to the exchange")))
    assert "memo" in refused(text, meant("usdc-send"))


def test_authorisation_covers_call_and_transfers_only():
    me, oft = scval.to_address(ME), scval.to_address(str(SEND.oft))
    token = str(MAINNET.stellar.usdt0_contract)
    burn, fee = taken_by(SEND)
    more = consent(called(token, "burn", me, scval.to_int128(SEND.amount + 1)))
    dearer = called(Asset.native().contract_id(PASSPHRASE), "transfer", me, oft)
    dearer.args.append(scval.to_int128(SEND.native_fee + 1))
    approved = consent(called(token, "approve", me, oft, scval.to_int128(1)))
    usdc = called(str(MAINNET.stellar.usdc_contract), "transfer", me, oft, scval.to_int128(1))
    deeper = consent(burn.function.contract_fn, fee)
    for wrong in (more, consent(dearer), approved, consent(usdc), deeper):
        assert "authorise" in refused(shown(SEND, below=[burn, wrong]), meant("usdt0-withdraw"))
    assert "authorise" in refused(shown(BURN, below=[burn]), meant("usdc-withdraw"))


def test_authorisation_of_another_call_is_refused():
    envelope: Any = TransactionBuilder.from_xdr(shown(BURN), PASSPHRASE)
    other = operation_of(replace(BURN, amount=BaseUnits(10)), ME)
    assert isinstance(other, InvokeHostFunction)
    [given] = envelope.transaction.operations[0].auth
    given.root_invocation.function.contract_fn = other.host_function.invoke_contract
    assert "authorise" in refused(envelope.to_xdr(), meant())
    given.credentials = xdr.SorobanCredentials(
        xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_ADDRESS,
        address=xdr.SorobanAddressCredentials(
            Address(ME).to_xdr_sc_address(), xdr.Int64(1), xdr.Uint32(1), scval.to_void()
        ),
    )
    assert "authorise" in refused(envelope.to_xdr(), meant())


def bumped() -> str:
    inner: Any = TransactionBuilder.from_xdr(shown(PAY), PASSPHRASE)
    return str(
        TransactionBuilder.build_fee_bump_transaction(FRIEND, 200, inner, PASSPHRASE).to_xdr()
    )


@pytest.mark.parametrize("text", ["", "noise", shown(PAY)[:-9], bumped()])
def test_unreadable_transaction_is_refused(text):
    refused(text, meant("usdc-send"))


def test_transaction_for_another_network_is_refused():
    assert "network" in refused(shown(PAY), meant("usdc-send"), network="Another ; 2026")


@pytest.mark.parametrize(
    "changes",
    [{"recipient": "0x12"}, {"recipient": FRIEND}, {"transfer": "00"}, {"chain": "eip155:80094"}],
)
def test_invalid_withdrawal_terms_are_refused(changes):
    refused(shown(BURN), meant(**changes))
