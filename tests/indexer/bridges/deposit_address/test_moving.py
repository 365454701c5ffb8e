"""Deposits on a real local chain: addresses, burns, sends and refunds."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stellar_sdk import StrKey

from devnet.evm import NATIVE_FEE, deployer
from devnet.evm_messages import CONFIRMED, FINALIZED
from devnet.evm_node import Reverted, encode_call, event_topic
from devnet.evm_sending import Receipt
from indexer.addresses import evm_as_bytes32
from indexer.bridges.cctp.events import DepositForBurn, MessageSent
from indexer.bridges.cctp.message import forward_recipient, parse_message, transfer_tag
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.deposit_address.factory import (
    FORWARDER_CODE_HASH,
    RELEASE_AFTER,
    Deposit,
    burn_call,
    refund_call,
    refund_native_call,
    route_hash,
    send_call,
)
from indexer.bridges.oft.events import OftSent, PacketSent
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import EvmLog
from indexer.config.networks import Network
from indexer.decode.evm import decode
from tests.factories.deposits import OWNER, OWNER_KEY, make_deposit
from tests.indexer.bridges.deposit_address.conftest import MALLORY, OPERATOR, PAYER, Stand
from tests.indexer.bridges.deposit_address.vectors import vectors
from warehouse_schema.identifiers import Address, BaseUnits, BlockHash, EvmAddress, Height, TxHash

TERMS = "(uint256,address,uint256,uint256,bytes16,address,address,uint64)"
REFUNDED = event_topic("Refunded(address,address,address,uint256)")


def chains_address(stand: Stand, network: Network, deposit: Deposit) -> str:
    """What the factory's own view says, of the terms in the words of a refund's call."""
    words = refund_call(network, deposit, stand.usdc).data[4 : 4 + 9 * 32]
    data = event_topic(f"addressOf({TERMS},bytes32)")[:4] + words
    request = {"to": stand.devnet.addresses.deposit_factory, "data": "0x" + data.hex()}
    return "0x" + stand.devnet.rpc("eth_call", request, "latest")[-40:]


def events(stand: Stand, receipt: Receipt) -> list[Event]:
    """What our decoder makes of a transaction."""
    chain = stand.network.evm[0]
    decoded = (
        decode(
            EvmLog(
                Provenance(
                    chain.id,
                    Height(receipt.block_number),
                    BlockHash(receipt.block_hash),
                    TxHash(receipt.transaction_hash),
                    log.index,
                    stand.now(),
                ),
                EvmAddress(log.address),
                tuple("0x" + topic.hex() for topic in log.topics),
                log.data,
            ),
            chain,
        )
        for log in receipt.logs
    )
    return [event for event in decoded if event is not None]


def refunded(receipt: Receipt) -> list[tuple[str, str, str, int]]:
    """Deposit, token, to whom, how much."""
    return [
        (
            "0x" + log.topics[1][12:].hex(),
            "0x" + log.topics[2][12:].hex(),
            "0x" + log.data[12:32].hex(),
            int.from_bytes(log.data[32:], "big"),
        )
        for log in receipt.logs
        if log.topics[0] == REFUNDED
    ]


# Addresses


def test_chain_computes_the_golden_addresses(stand: Stand) -> None:
    for vector in vectors():
        there = chains_address(stand, vector.network, vector.deposit)
        assert there == replace(stand, network=vector.network).address(vector.deposit)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bridge=st.sampled_from(["cctp", "oft"]),
    key=st.binary(min_size=32, max_size=32),
    transfer_id=st.uuids(),
    amounts=st.tuples(st.integers(1, 2**256 - 1), st.integers(1, 2**256 - 1)),
    people=st.tuples(*[st.binary(min_size=20, max_size=20).filter(any)] * 2),
    expires_at=st.integers(1, 2**63 - 1),
)
def test_chain_computes_any_address_as_python(
    stand: Stand, bridge, key, transfer_id, amounts, people, expires_at
) -> None:
    deposit = make_deposit(
        bridge=bridge,
        owner=StrKey.encode_ed25519_public_key(key),
        transfer_id=transfer_id,
        amount=max(amounts),
        min_received=min(amounts),
        refund_to="0x" + people[0].hex(),
        operator="0x" + people[1].hex(),
        expires_at=expires_at,
    )
    assert chains_address(stand, stand.network, deposit) == stand.address(deposit)


def test_chain_has_the_same_constants(stand: Stand) -> None:
    factory = stand.devnet.addresses.deposit_factory
    [code_hash] = stand.devnet.call(factory, "FORWARDER_CODE_HASH()", returns="(bytes32)")
    [release_after] = stand.devnet.call(factory, "RELEASE_AFTER()", returns="(uint256)")
    assert "0x" + code_hash.hex() == FORWARDER_CODE_HASH
    assert release_after == RELEASE_AFTER


@pytest.mark.parametrize("bridge", ["cctp", "oft"])
def test_chain_hashes_routes_as_python(stand: Stand, bridge) -> None:
    chain, stellar = stand.network.evm[0], stand.network.stellar
    assert stellar.cctp_forwarder is not None
    forwarder = StrKey.decode_contract(stellar.cctp_forwarder)
    signature, route = {
        "cctp": (
            "cctpRouteHash((address,uint32,bytes32,bytes))",
            (chain.cctp_token_messenger, 27, forwarder, OWNER.encode()),
        ),
        "oft": ("oftRouteHash((address,uint32,bytes32))", (chain.oft, 30600, OWNER_KEY)),
    }[bridge]
    factory = stand.devnet.addresses.deposit_factory
    [there] = stand.devnet.call(factory, signature, route, returns="(bytes32)")
    assert "0x" + there.hex() == route_hash(stand.network, stand.deposit(bridge=bridge))


# Burning


def burned(stand: Stand, deposit: Deposit, *, max_fee: int = 0, finality: int = FINALIZED):
    call = burn_call(stand.network, deposit, max_fee=BaseUnits(max_fee), min_finality=finality)
    return stand.send(OPERATOR, call)


def test_paid_deposit_is_burned_to_its_owner_with_its_id(stand: Stand) -> None:
    deposit, forwarder = stand.deposit(), stand.network.stellar.cctp_forwarder
    at = stand.pay(deposit)
    seen = events(stand, burned(stand, deposit, max_fee=10_000, finality=CONFIRMED))
    [burn] = [event for event in seen if isinstance(event, DepositForBurn)]
    [sent] = [event for event in seen if isinstance(event, MessageSent)]
    assert forwarder is not None
    remote = "0x" + StrKey.decode_contract(forwarder).hex()
    assert (burn.depositor, burn.burn_token) == (Address(at), Address(stand.usdc))
    assert burn.amount == deposit.amount
    assert (burn.mint_recipient, burn.destination_caller) == (remote, remote)
    assert (burn.destination_domain, burn.max_fee, burn.min_finality_threshold) == (
        27,
        10_000,
        1000,
    )
    assert forward_recipient(burn.hook_data) == deposit.owner
    assert transfer_tag(burn.hook_data) == deposit.transfer_id.bytes
    assert burn.hook_data[:24] == bytes(24)
    body = parse_message(sent.message).body
    assert body is not None
    assert body.message_sender == evm_as_bytes32(at)
    assert stand.devnet.balance_of(stand.usdc, at) == 0


def test_deposit_paid_in_two_parts_is_burned_as_one(stand: Stand) -> None:
    deposit = stand.deposit()
    stand.pay(deposit, 15_000_000)
    with pytest.raises(Reverted, match="exceeds balance"):
        burned(stand, deposit)
    stand.pay(deposit, 5_000_000)
    [burn] = [e for e in events(stand, burned(stand, deposit)) if isinstance(e, DepositForBurn)]
    assert burn.amount == 20_000_000


def test_excess_above_the_promised_amount_is_refunded(stand: Stand) -> None:
    deposit = stand.deposit(refund_to=PAYER.address.lower())
    at = stand.pay(deposit, deposit.amount + 7)
    burned(stand, deposit)
    receipt = stand.send(OPERATOR, refund_call(stand.network, deposit, stand.usdc))
    [refund] = [event for event in events(stand, receipt) if isinstance(event, DepositRefunded)]
    assert (refund.deposit, refund.token) == (at, stand.usdc)
    assert (refund.refund_to, refund.amount) == (deposit.refund_to, 7)
    assert stand.devnet.balance_of(stand.usdc, PAYER.address) == 7
    assert stand.devnet.balance_of(stand.usdc, at) == 0


def test_second_payment_can_be_burned_again(stand: Stand) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    burned(stand, deposit)
    code = stand.code(at)
    stand.pay(deposit)
    burned(stand, deposit)
    assert stand.code(at) == code != "0x"
    assert stand.devnet.balance_of(stand.usdc, at) == 0


# Sending


def test_paid_deposit_is_sent_and_excess_message_fee_refunded(
    stand: Stand,
) -> None:
    deposit = stand.deposit(bridge="oft")
    at = stand.pay(deposit)
    receipt = stand.send(OPERATOR, send_call(stand.network, deposit), value=NATIVE_FEE * 3)
    seen = events(stand, receipt)
    [sent] = [event for event in seen if isinstance(event, OftSent)]
    [packet] = [event for event in seen if isinstance(event, PacketSent)]
    assert sent.from_address == Address(at)
    assert (sent.amount_sent, sent.dst_eid) == (deposit.amount, 30600)
    assert packet.guid == sent.guid
    assert packet.send_to == "0x" + OWNER_KEY.hex()
    assert packet.amount_shared == deposit.amount
    assert stand.devnet.balance_of(stand.usdt0, at) == 0
    allowance = stand.devnet.call(
        stand.usdt0,
        "allowance(address,address)",
        at,
        stand.devnet.addresses.oft,
        returns="(uint256)",
    )
    assert allowance == (0,)
    assert stand.native(at) == stand.native(stand.devnet.addresses.deposit_factory) == 0
    assert stand.native(stand.devnet.addresses.endpoint) == NATIVE_FEE


def test_unpaid_message_fee_moves_no_funds(stand: Stand) -> None:
    deposit = stand.deposit(bridge="oft")
    at = stand.pay(deposit)
    with pytest.raises(Reverted, match="LZ_InsufficientFee"):
        stand.send(OPERATOR, send_call(stand.network, deposit), value=NATIVE_FEE - 1)
    assert stand.devnet.balance_of(stand.usdt0, at) == deposit.amount


def test_token_without_return_value_is_sent_by_an_adapter(stand: Stand) -> None:
    token = stand.make("SilentCoin")
    adapter = stand.make("OftAdapter", ("address",), token)
    there = replace(stand, network=stand.with_chain(usdt0=token, oft=adapter))
    deposit = there.deposit(bridge="oft", amount=100, min_received=99)
    at = there.address(deposit)
    for _ in range(2):
        stand.devnet.send(MALLORY, token, encode_call("mint(address,uint256)", at, 100))
        there.send(OPERATOR, send_call(there.network, deposit))
    assert stand.devnet.balance_of(token, adapter) == 200
    assert stand.devnet.balance_of(token, at) == 0
    allowance = stand.devnet.call(
        token, "allowance(address,address)", at, adapter, returns="(uint256)"
    )
    assert allowance == (0,)


def test_bridge_fee_above_the_promise_is_refused(stand: Stand) -> None:
    token = stand.make("SilentCoin")
    adapter = stand.make("OftAdapter", ("address",), token)
    there = replace(stand, network=stand.with_chain(usdt0=token, oft=adapter))
    deposit = there.deposit(bridge="oft", amount=100, min_received=100)
    stand.devnet.send(
        MALLORY, token, encode_call("mint(address,uint256)", there.address(deposit), 100)
    )
    with pytest.raises(Reverted):
        there.send(OPERATOR, send_call(there.network, deposit))
    assert stand.devnet.balance_of(token, there.address(deposit)) == 100


# Returning


@pytest.mark.parametrize("bridge", ["cctp", "oft"])
def test_deposit_below_the_amount_is_refunded_whole(stand: Stand, bridge) -> None:
    deposit = stand.deposit(bridge=bridge, refund_to=PAYER.address.lower())
    token = stand.usdc if bridge == "cctp" else stand.usdt0
    at = stand.pay(deposit, 19_999_999)
    receipt = stand.send(OPERATOR, refund_call(stand.network, deposit, token))
    assert refunded(receipt) == [(at, token, deposit.refund_to, 19_999_999)]
    assert stand.devnet.balance_of(token, PAYER.address) == 19_999_999


@pytest.mark.parametrize("name", ["usdt0", "SilentCoin"])
def test_other_token_is_refunded(stand: Stand, name: str) -> None:
    token = stand.usdt0 if name == "usdt0" else stand.make(name)
    deposit = stand.deposit(refund_to=PAYER.address.lower())
    at = stand.pay(deposit)
    stand.devnet.send(deployer(), token, encode_call("mint(address,uint256)", at, 5))
    stand.send(OPERATOR, refund_call(stand.network, deposit, token))
    assert stand.devnet.balance_of(token, PAYER.address) == 5
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_early_native_coin_is_refunded_and_later_bounces(stand: Stand) -> None:
    payee = "0x" + "77" * 20
    deposit = stand.deposit(refund_to=payee)
    at = stand.pay(deposit)
    stand.devnet.send(PAYER, at, b"", value=123)
    burned(stand, deposit)
    receipt = stand.send(OPERATOR, refund_native_call(stand.network, deposit))
    assert refunded(receipt) == [(at, "0x" + "00" * 20, payee, 123)]
    assert (stand.native(payee), stand.native(at)) == (123, 0)
    with pytest.raises(Reverted, match="OnlyFactory"):
        stand.devnet.send(PAYER, at, b"", value=1)


def test_native_refund_works_as_first_call(stand: Stand) -> None:
    payee = "0x" + "77" * 20
    deposit = stand.deposit(refund_to=payee)
    stand.devnet.send(PAYER, stand.address(deposit), b"", value=5)
    stand.send(OPERATOR, refund_native_call(stand.network, deposit))
    assert stand.native(payee) == 5


def test_refund_of_empty_deposit_is_refused(stand: Stand) -> None:
    deposit = stand.deposit()
    for call in (
        refund_call(stand.network, deposit, stand.usdc),
        refund_native_call(stand.network, deposit),
    ):
        with pytest.raises(Reverted, match="NothingToRefund"):
            stand.send(OPERATOR, call)
    assert stand.code(stand.address(deposit)) == "0x"


def test_deposit_on_wrong_chain_is_refunded_not_burned(stand: Stand) -> None:
    """The factory is at one address on all chains, so the money is at the address of the terms."""
    elsewhere = replace(stand, network=stand.with_chain(id="eip155:7777"))
    deposit = elsewhere.deposit(chain="eip155:7777", refund_to=PAYER.address.lower())
    elsewhere.pay(deposit)
    with pytest.raises(Reverted, match=r"WrongChain\(7777,\)"):
        burned(elsewhere, deposit)
    elsewhere.send(OPERATOR, refund_call(elsewhere.network, deposit, stand.usdc))
    assert stand.devnet.balance_of(stand.usdc, PAYER.address) == deposit.amount


@pytest.mark.parametrize("native", [False, True])
def test_any_account_refunds_at_release_but_not_earlier(stand: Stand, native: bool) -> None:
    payee = "0x" + "77" * 20
    deposit = stand.deposit(refund_to=payee, expires_at=stand.now() + 10)
    at = stand.pay(deposit)
    stand.devnet.send(PAYER, at, b"", value=9)
    call = refund_call(stand.network, deposit, stand.usdc)
    if native:
        call = refund_native_call(stand.network, deposit)
    released_at = deposit.expires_at + RELEASE_AFTER
    for time, succeeds in ((released_at - 1, False), (released_at, True)):
        stand.devnet.set_next_block_timestamp(time)
        receipt = stand.devnet.send(MALLORY, call.to, call.data, gas=500_000)
        assert (receipt.succeeded, stand.now()) == (succeeds, time)
    left = stand.native(payee), stand.devnet.balance_of(stand.usdc, payee)
    assert left == ((9, 0) if native else (0, deposit.amount))


def test_operator_still_delivers_after_release(stand: Stand) -> None:
    deposit = stand.released()
    at = stand.pay(deposit)
    burned(stand, deposit)
    assert stand.devnet.balance_of(stand.usdc, at) == 0


def test_frozen_address_fails_with_text_of_the_token(stand: Stand) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    stand.devnet.send(deployer(), stand.usdc, encode_call("blacklist(address)", at))
    with pytest.raises(Reverted, match="blacklisted"):
        burned(stand, deposit)
    with pytest.raises(Reverted, match="blacklisted"):
        stand.send(OPERATOR, refund_call(stand.network, deposit, stand.usdc))
