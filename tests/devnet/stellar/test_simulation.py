"""Simulation, authorisation and resources of contract calls, through stellar-sdk's client."""

import json

import pytest
from stellar_sdk import Asset, SorobanServer, TransactionBuilder, scval, xdr
from stellar_sdk.auth import authorize_entry
from stellar_sdk.base_soroban_server import ResourceLeeway
from stellar_sdk.client.base_sync_client import BaseSyncClient
from stellar_sdk.client.response import Response
from stellar_sdk.exceptions import PrepareTransactionException
from stellar_sdk.operation import Payment
from stellar_sdk.soroban_rpc import AuthMode

from devnet.stellar import building
from devnet.stellar.accounts import PASSPHRASE, USDC, USDT0, address
from devnet.stellar.asset_events import token_contract
from devnet.stellar.registry import devnet_contracts
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import answer
from tests.devnet.stellar.chain import UNIT, Chain, codes, refusal, result, why

AT = devnet_contracts()
EID = 30101
FEE = 4_500_000


class InProcess(BaseSyncClient):
    """The SDK's way to the node without a socket."""

    def __init__(self, chain):
        self.rpc = Rpc(chain.node)

    def post(self, url, data=None, json_data=None):
        body = json.dumps(json_data).encode() if data is None else data.encode()
        return Response(200, json.dumps(answer(self.rpc, body)), {}, url)

    def get(self, url, params=None):
        raise NotImplementedError

    def stream(self, url, params=None):
        raise NotImplementedError

    def close(self):
        pass


@pytest.fixture
def chain():
    return Chain()


@pytest.fixture
def server(chain):
    return SorobanServer("http://devnet", InProcess(chain))


@pytest.fixture
def alice(chain):
    return chain.open("alice", usdc=10 * UNIT, usdt0=10 * UNIT)


def unsigned(server, source, operation):
    account = server.load_account(source.public_key)
    builder = TransactionBuilder(account, PASSPHRASE, base_fee=100)
    return builder.append_operation(operation).set_timeout(0).build()


def transfer(source, to, amount, asset=USDC):
    parties = (scval.to_address(source.public_key), scval.to_address(to))
    return building.call(token_contract(asset), "transfer", *parties, scval.to_int128(amount))


def sent(chain, server, envelope, *signers):
    """The transaction of the ledger that took a prepared envelope."""
    for signer in signers:
        envelope.sign(signer)
    reply = server.send_transaction(envelope)
    assert reply.status.value == "PENDING", reply
    chain.node.close_ledger()
    row = chain.node.transaction(reply.hash)
    assert row is not None
    return row


def send_param(amount):
    """LayerZero's `SendParam`, stroops."""
    fields = {
        "amount_ld": scval.to_int128(amount),
        "compose_msg": scval.to_bytes(b""),
        "dst_eid": scval.to_uint32(EID),
        "extra_options": scval.to_bytes(b""),
        "min_amount_ld": scval.to_int128(amount),
        "oft_cmd": scval.to_bytes(b""),
        "to": scval.to_bytes(bytes(12) + b"\x11" * 20),
    }
    return scval.to_struct(fields)


def fee_of(amount):
    return scval.to_struct({"native_fee": scval.to_int128(amount), "zro_fee": scval.to_int128(0)})


def names(tree):
    """The functions of an authorised tree."""
    call = tree.function.contract_fn
    return call.function_name.sc_symbol.decode(), [names(sub) for sub in tree.sub_invocations]


def test_prepared_call_has_the_simulated_result(chain, server, alice):
    operation = transfer(alice, address("relayer"), UNIT, Asset.native())
    tried = server.simulate_transaction(unsigned(server, alice, operation))
    assert tried.error is None
    assert tried.restore_preamble is None
    assert scval.to_native(tried.results[0].xdr) is None
    assert {change.type for change in tried.state_changes} == {"updated"}
    row = sent(chain, server, server.prepare_transaction(unsigned(server, alice, operation)), alice)
    assert row.succeeded, why(row)
    reply = server.get_transaction(row.hash)
    assert reply.status.value == "SUCCESS"
    before = chain.account(alice.public_key).balance
    assert result(row).fee_charged.int64 < 100 + tried.min_resource_fee
    assert before == chain.account(alice.public_key).balance


def test_simulation_changes_no_state_and_needs_no_signature(chain, server, alice):
    operation = building.call(AT.usdc_sac, "balance", scval.to_address(alice.public_key))
    head = chain.node.latest.sequence
    tried = server.simulate_transaction(unsigned(server, alice, operation))
    assert scval.to_native(tried.results[0].xdr) == 10 * UNIT
    assert not tried.results[0].auth
    assert not tried.state_changes
    data = xdr.SorobanTransactionData.from_xdr(tried.transaction_data)
    assert not data.resources.footprint.read_write
    assert chain.node.latest.sequence == head


def test_failing_call_has_an_error_in_the_response(server, alice):
    operation = transfer(alice, address("relayer"), 99 * UNIT)
    tried = server.simulate_transaction(unsigned(server, alice, operation))
    assert tried.error.startswith("HostError: Error(Contract, #")
    assert tried.results is None
    assert [xdr.DiagnosticEvent.from_xdr(event) for event in tried.events]
    with pytest.raises(PrepareTransactionException):
        server.prepare_transaction(unsigned(server, alice, operation))


def test_only_one_contract_call_can_be_simulated(server, alice):
    payment = Payment(alice.public_key, Asset.native(), "1")
    envelope = unsigned(server, alice, payment)
    assert "unsupported operation" in server.simulate_transaction(envelope).error
    envelope.transaction.operations.append(payment)
    assert "more than one operation" in server.simulate_transaction(envelope).error


def test_source_authorises_the_whole_call_tree(chain, server, alice):
    me = scval.to_address(alice.public_key)
    operation = building.call(AT.oft, "send", me, send_param(5 * UNIT), fee_of(FEE), me)
    prepared = server.prepare_transaction(unsigned(server, alice, operation))
    (entry,) = prepared.transaction.operations[0].auth
    assert names(entry.root_invocation) == ("send", [("burn", []), ("transfer", [])])
    row = sent(chain, server, prepared, alice)
    assert row.succeeded, why(row)
    assert chain.balance(alice.public_key, USDT0) == 5 * UNIT


@pytest.mark.parametrize("kept", [0, 1])
def test_call_missing_in_the_auth_tree_is_not_authorised(chain, server, alice, kept):
    me = scval.to_address(alice.public_key)
    operation = building.call(AT.oft, "send", me, send_param(5 * UNIT), fee_of(FEE), me)
    prepared = server.prepare_transaction(unsigned(server, alice, operation))
    (entry,) = prepared.transaction.operations[0].auth
    del entry.root_invocation.sub_invocations[kept:]
    row = sent(chain, server, prepared, alice)
    assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_TRAPPED")
    assert "has not authorised" in why(row)
    assert chain.balance(alice.public_key, USDT0) == 10 * UNIT


def test_authorisation_of_other_arguments_is_refused(chain, server, alice):
    prepared = server.prepare_transaction(
        unsigned(server, alice, transfer(alice, address("relayer"), UNIT, Asset.native()))
    )
    other = transfer(alice, address("admin"), UNIT, Asset.native())
    call = prepared.transaction.operations[0]
    call.auth[0].root_invocation.function.contract_fn = other.host_function.invoke_contract
    assert "has not authorised" in why(sent(chain, server, prepared, alice))


def test_other_account_authorises_once_until_a_ledger(chain, server, alice):
    bob = chain.open("bob", usdc=0)
    until = chain.node.latest.sequence + 10
    operation = transfer(alice, bob.public_key, UNIT)
    found = server.simulate_transaction(
        unsigned(server, bob, operation), use_upgraded_auth=False, auth_mode=AuthMode.RECORD
    )
    signed = authorize_entry(found.results[0].auth[0], alice, until, PASSPHRASE)
    operation.auth = [signed]

    def run():
        return sent(
            chain,
            server,
            server.prepare_transaction(unsigned(server, bob, operation)),
            bob,
        )

    assert run().succeeded
    assert chain.balance(bob.public_key) == UNIT
    with pytest.raises(PrepareTransactionException, match="Simulation transaction failed"):
        run()
    reply = server.simulate_transaction(unsigned(server, bob, operation)).error
    assert "Error(Auth, InvalidAction)" in reply
    assert "used before" in reply


def test_other_or_expired_signature_authorises_no_call(chain, server, alice):
    bob = chain.open("bob", usdc=0)
    operation = transfer(alice, bob.public_key, UNIT)
    found = server.simulate_transaction(unsigned(server, bob, operation), use_upgraded_auth=False)
    entry, now = found.results[0].auth[0], chain.node.latest.sequence
    for signer, until, message in (
        (bob, now + 10, "no signer"),
        (alice, now - 1, "over or too far off"),
        (alice, now + 4_000_000, "over or too far off"),
    ):
        operation.auth = [authorize_entry(entry, signer, until, PASSPHRASE)]
        assert message in server.simulate_transaction(unsigned(server, bob, operation)).error


def test_access_outside_the_footprint_fails(chain, server, alice):
    for part in ("read_only", "read_write"):
        operation = transfer(alice, address("relayer"), UNIT, Asset.native())
        prepared = server.prepare_transaction(unsigned(server, alice, operation))
        footprint = prepared.transaction.soroban_data.resources.footprint
        getattr(footprint, part).pop()
        row = sent(chain, server, prepared, alice)
        assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_TRAPPED")
        assert "outside of the footprint" in why(row)


def test_too_few_declared_resources_fail(chain, server, alice):
    operation = transfer(alice, address("relayer"), UNIT, Asset.native())
    prepared = server.prepare_transaction(unsigned(server, alice, operation))
    prepared.transaction.soroban_data.resources.write_bytes = xdr.Uint32(10)
    row = sent(chain, server, prepared, alice)
    assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_RESOURCE_LIMIT_EXCEEDED")


def test_resource_fee_below_declared_resources_is_refused(chain, server, alice):
    operation = transfer(alice, address("relayer"), UNIT, Asset.native())
    prepared = server.prepare_transaction(unsigned(server, alice, operation))
    prepared.transaction.soroban_data.resource_fee = xdr.Int64(1_000)
    prepared.sign(alice)
    submission = chain.node.submit(prepared.to_xdr_object())
    assert refusal(submission) == ("txSOROBAN_INVALID",)


def test_too_small_refundable_fee_fails_the_call(chain, server, alice):
    spender = scval.to_address(address("relayer"))
    me, amount, until = scval.to_address(alice.public_key), scval.to_int128(5), scval.to_uint32(90)
    operation = building.call(AT.usdc_sac, "approve", me, spender, amount, until)
    prepared = server.prepare_transaction(unsigned(server, alice, operation))
    prepared.transaction.soroban_data.resource_fee.int64 -= 20_000
    row = sent(chain, server, prepared, alice)
    assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_INSUFFICIENT_REFUNDABLE_FEE")


def test_extra_instructions_are_granted_and_charged(server, alice):
    envelope = unsigned(server, alice, transfer(alice, address("relayer"), UNIT, Asset.native()))
    plain = server.simulate_transaction(envelope)
    roomy = server.simulate_transaction(envelope, ResourceLeeway(1_000_000))
    instructions = [
        xdr.SorobanTransactionData.from_xdr(each.transaction_data).resources.instructions.uint32
        for each in (plain, roomy)
    ]
    assert instructions[1] - instructions[0] == 1_000_000
    assert roomy.min_resource_fee - plain.min_resource_fee == 2_500
