"""Stellar transactions for owners to sign: arguments, sequence number, and refusals."""

from dataclasses import replace

import pytest
from stellar_sdk import Address, TransactionBuilder, scval, xdr
from stellar_sdk.operation import InvokeHostFunction, Payment

from indexer.actions.stellar_orders import (
    APPROVED_LEDGERS,
    Approve,
    BurnOnStellar,
    Pay,
    approval,
    operation_of,
    stellar_order,
)
from indexer.actions.stellar_tx import (
    SpentSequence,
    complete_tx,
    draft,
    next_sequence,
)
from indexer.chains.stellar.xdr.simulation import SimulationResult
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories import actions
from tests.factories.actions import MAINNET, PAYER, TRANSFER, make_agreed, make_withdrawal
from warehouse_schema.identifiers import BaseUnits, Height, StellarAddress, UnixSeconds

STELLAR = MAINNET.stellar
OWNER = StellarAddress(actions.OWNER)
EXPIRES = UnixSeconds(1_800_001_800)


def call_arguments(step):
    """Contract, function and arguments, as Python values."""
    operation = operation_of(step, OWNER)
    assert isinstance(operation, InvokeHostFunction)
    call = operation.host_function.invoke_contract
    arguments = [scval.to_native(each) for each in call.args]
    return (
        Address.from_xdr_sc_address(call.contract_address).address,
        call.function_name.sc_symbol.decode(),
        [getattr(each, "address", each) for each in arguments],
    )


def test_burn_has_every_agreed_argument():
    order = stellar_order(MAINNET, make_withdrawal())
    recipient = bytes(12) + bytes.fromhex(PAYER[2:])
    assert call_arguments(order) == (
        STELLAR.cctp_token_messenger,
        "deposit_for_burn_with_hook",
        [
            OWNER,
            200_000_000,
            0,
            recipient,
            STELLAR.usdc_contract,
            bytes(32),
            100_000,
            2000,
            bytes.fromhex(TRANSFER),
        ],
    )


def test_missing_allowance_is_approved_exactly():
    order = stellar_order(MAINNET, make_withdrawal())
    assert approval(order, BaseUnits(200_000_000), Height(50)) is None
    step = approval(order, BaseUnits(199_999_999), Height(50))
    assert isinstance(step, Approve)
    assert call_arguments(step) == (
        STELLAR.usdc_contract,
        "approve",
        [OWNER, STELLAR.cctp_token_messenger, 200_000_000, 50 + APPROVED_LEDGERS],
    )


def test_oft_send_pays_its_fee_and_refunds_owner():
    order = stellar_order(MAINNET, make_withdrawal(mechanism="oft"))
    contract, function, [sender, param, fee, refund_to] = call_arguments(order)
    assert (contract, function) == (STELLAR.oft, "send")
    assert (sender, refund_to) == (OWNER, OWNER)
    assert fee == {"native_fee": 5_000_000, "zro_fee": 0}
    assert param == {
        "amount_ld": 200_000_000,
        "compose_msg": b"",
        "dst_eid": 30101,
        "extra_options": b"",
        "min_amount_ld": 200_000_000,
        "oft_cmd": b"",
        "to": bytes(12) + bytes.fromhex(PAYER[2:]),
    }
    assert approval(order, BaseUnits(0), Height(50)) is None


def test_payment_sends_the_agreed_asset():
    other = "GCEZWKCA5VLDNRLN3RPRJMRZOX3Z6G5CHCGSNFHEYVXM3XOJMDS674JZ"
    order = stellar_order(MAINNET, make_withdrawal(mechanism="payment", dest_address=other))
    assert order == Pay(STELLAR.usdc, other, BaseUnits(200_000_000))
    operation = operation_of(order, OWNER)
    assert isinstance(operation, Payment)
    assert (operation.amount, operation.asset.code) == ("20", "USDC")


@pytest.mark.parametrize(
    "changes",
    [
        {"amount_in": 200_000_001},
        {"amount_out": 20_000_001},
        {"amount_out": 0},
        {"finality_threshold": None},
        {"dest_chain": STELLAR.id},
        {"mechanism": "oft", "native_fee": None},
        {"mechanism": "payment", "amount_out": 199_999_999},
    ],
)
def test_impossible_amount_raises(changes):
    with pytest.raises(ValueError, match=TRANSFER):
        stellar_order(MAINNET, make_withdrawal(**changes))


def test_deposit_raises():
    with pytest.raises(ValueError, match="does not begin"):
        stellar_order(MAINNET, make_agreed())


def test_bridge_missing_on_network_raises():
    testnet = load_network("testnet")
    with pytest.raises(ConfigurationError):
        stellar_order(testnet, make_withdrawal(testnet, mechanism="oft"))


# Its number


@pytest.mark.parametrize(
    ("spent", "ingested", "issued", "expected"),
    [
        (SpentSequence(6, Height(50)), 50, (), 7),
        (SpentSequence(6, Height(50)), 10, (), 7),
        (SpentSequence(6, Height(50)), 50, (7,), 7),
        (SpentSequence(6, Height(50)), 10, (7,), 7),
        (SpentSequence(7, Height(50)), 50, (7,), 8),
        (SpentSequence(7, Height(50)), 49, (7,), None),
        (SpentSequence(9, Height(50)), 49, (7,), None),
        (SpentSequence(5, Height(50)), 50, (7,), 7),
        (SpentSequence(7, Height(50)), 50, (7, 8), 8),
    ],
    ids=[
        "the one after the last",
        "the first needs nothing to be ingested",
        "that of one that may still be sent",
        "also before its ledger is ingested",
        "a new one once the old one is spent, and not on ours",
        "none while nobody knows what spent it",
        "nor what spent those after it",
        "a node that is behind does not bring back an old one",
        "that of the newest",
    ],
)
def test_number_is_reused_until_it_is_dead(spent, ingested, issued, expected):
    assert next_sequence(spent, Height(ingested), issued) == expected


# What a node says that it needs


def entry(step, credentials=None, arguments=None):
    operation = operation_of(step, OWNER)
    call = operation.host_function.invoke_contract
    if arguments is not None:
        call = xdr.InvokeContractArgs(call.contract_address, call.function_name, arguments)
    kind = xdr.SorobanAuthorizedFunctionType.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CONTRACT_FN
    own = xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
    return xdr.SorobanAuthorizationEntry(
        credentials or xdr.SorobanCredentials(own),
        xdr.SorobanAuthorizedInvocation(xdr.SorobanAuthorizedFunction(kind, contract_fn=call), []),
    ).to_xdr_bytes()


def data(fee=5_000):
    nothing = xdr.Uint32(0)
    resources = xdr.SorobanResources(xdr.LedgerFootprint([], []), nothing, nothing, nothing)
    ext = xdr.SorobanTransactionDataExt(0)
    return xdr.SorobanTransactionData(ext, resources, xdr.Int64(fee)).to_xdr_bytes()


BURN = stellar_order(MAINNET, make_withdrawal())
DRAFT = draft(STELLAR.passphrase, OWNER, 7, EXPIRES, [operation_of(BURN, OWNER)])


def found(*auth):
    return SimulationResult(b"", data(), 5_000, auth)


def test_completion_adds_only_fee_resources_and_auth():
    issued = complete_tx(STELLAR.passphrase, DRAFT, found(entry(BURN)))
    before, after = (
        TransactionBuilder.from_xdr(each.envelope, STELLAR.passphrase).transaction
        for each in (DRAFT, issued)
    )
    assert after.fee == before.fee + 5_000 == 5_100
    assert after.soroban_data.resource_fee.int64 == 5_000
    assert len(after.operations[0].auth) == 1
    assert after.operations[0].host_function == before.operations[0].host_function
    assert (after.sequence, after.preconditions) == (before.sequence, before.preconditions)
    assert after.preconditions.time_bounds.max_time == EXPIRES
    assert issued.tx != DRAFT.tx


def test_authorisation_beyond_the_call_is_refused():
    address = xdr.SorobanCredentials(
        xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_ADDRESS,
        address=xdr.SorobanAddressCredentials(
            Address(OWNER).to_xdr_sc_address(), xdr.Int64(1), xdr.Uint32(1), scval.to_void()
        ),
    )
    more = replace(BURN, amount=BaseUnits(900_000_000))
    for wrong in (entry(BURN, credentials=address), entry(more), entry(BURN, arguments=[])):
        with pytest.raises(ValueError, match="consent"):
            complete_tx(STELLAR.passphrase, DRAFT, found(entry(BURN), wrong))


def test_transaction_without_expiry_raises():
    assert isinstance(BURN, BurnOnStellar)
    with pytest.raises(ValueError, match="never expires"):
        draft(STELLAR.passphrase, OWNER, 7, UnixSeconds(0), [operation_of(BURN, OWNER)])
