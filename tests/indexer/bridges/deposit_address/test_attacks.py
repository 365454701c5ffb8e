"""Attacks on deposits by other accounts, by a stolen operator key and by malicious tokens."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devnet.evm import NATIVE_FEE, create_address
from devnet.evm_messages import FINALIZED
from devnet.evm_node import DEPOSIT_ARTIFACTS, Reverted, RpcFailed, artifact, encode_call
from indexer.bridges.deposit_address.factory import (
    DETERMINISTIC_DEPLOYER,
    RELEASE_AFTER,
    Deposit,
    FactoryCall,
    burn_call,
    create2_address,
    refund_call,
    refund_native_call,
    send_call,
)
from tests.factories.deposits import STRANGER
from tests.indexer.bridges.deposit_address.conftest import MALLORY, OPERATOR, PAYER, Stand
from warehouse_schema.identifiers import BaseUnits, EvmAddress

MINE = EvmAddress(MALLORY.address.lower())
ACCOUNTS = {"mallory": MALLORY, "operator": OPERATOR, "payer": PAYER}
NOBODY = "0x" + "00" * 20
FORBIDDEN = {
    0x54: "SLOAD",
    0x55: "SSTORE",
    0x5C: "TLOAD",
    0x5D: "TSTORE",
    0xF0: "CREATE",
    0xF2: "CALLCODE",
    0xF4: "DELEGATECALL",
    0xFF: "SELFDESTRUCT",
}


def burn(stand: Stand, deposit: Deposit) -> FactoryCall:
    return burn_call(stand.network, deposit, max_fee=BaseUnits(0), min_finality=FINALIZED)


def with_word(call: FactoryCall, index: int, word: bytes) -> FactoryCall:
    """The call with another word in its place: what our own encoder refuses to write."""
    at = 4 + 32 * index
    return replace(call, data=call.data[:at] + word + call.data[at + 32 :])


def opcodes(code: bytes) -> Iterator[int]:
    """Instructions of a contract, without what they push."""
    position = 0
    while position < len(code):
        yield code[position]
        position += 1 + max(0, code[position] - 0x5F if code[position] <= 0x7F else 0)


# Strangers


@pytest.mark.parametrize("bridge", ["cctp", "oft"])
def test_other_account_moves_no_funds_before_release(stand: Stand, bridge: Any) -> None:
    deposit = stand.deposit(bridge=bridge)
    token = stand.usdc if bridge == "cctp" else stand.usdt0
    at = stand.pay(deposit)
    move = burn(stand, deposit) if bridge == "cctp" else send_call(stand.network, deposit)
    refunds = refund_call(stand.network, deposit, token), refund_native_call(stand.network, deposit)
    with pytest.raises(Reverted, match="NotOperator"):
        stand.send(MALLORY, move)
    released_at = deposit.expires_at + RELEASE_AFTER
    for call in refunds:
        with pytest.raises(Reverted, match=rf"NotReleased\({released_at},\)"):
            stand.send(MALLORY, call)
    # Nor the payer: what could be called back could be pulled from under each burn.
    with pytest.raises(Reverted, match="NotReleased"):
        stand.send(PAYER, refunds[0])
    assert stand.devnet.balance_of(token, at) == deposit.amount
    assert stand.code(at) == "0x"


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": MINE},
        {"operator": MINE, "owner": STRANGER},
        {"operator": MINE, "refund_to": MINE},
        {"operator": MINE, "min_received": 1},
        {"operator": MINE, "expires_at": 1},
        {"operator": MINE, "amount": 1, "min_received": 1},
    ],
)
def test_forged_terms_cannot_move_a_deposit(stand: Stand, changes: dict[str, Any]) -> None:
    """The forged terms keep the transfer id and change one field."""
    deposit = stand.deposit()
    at = stand.pay(deposit)
    forged = replace(deposit, **changes)
    with pytest.raises(Reverted, match="exceeds balance"):
        stand.send(MALLORY, burn(stand, forged))
    with pytest.raises(Reverted, match="NothingToRefund"):
        stand.send(MALLORY, refund_call(stand.network, forged, stand.usdc))
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_forged_route_cannot_move_a_deposit(stand: Stand) -> None:
    """A malicious messenger would take the allowance, but its route gives another address."""
    deposit = stand.deposit(operator=MINE)
    forged = replace(stand, network=stand.with_chain(cctp_token_messenger=EvmAddress(MINE)))
    at = stand.pay(deposit)
    assert forged.address(deposit) != at
    with pytest.raises(Reverted, match="NoCode"):
        forged.send(MALLORY, burn(forged, deposit))
    assert stand.devnet.call(
        stand.usdc, "allowance(address,address)", at, MINE, returns="(uint256)"
    ) == (0,)


@pytest.mark.parametrize("who", ["mallory", "operator", "payer"])
def test_forwarder_obeys_only_its_factory(stand: Stand, who: str) -> None:
    account = ACCOUNTS[who]
    deposit = stand.deposit()
    at = stand.pay(deposit)
    stand.send(OPERATOR, burn(stand, deposit))
    stand.pay(deposit)
    transfer = encode_call("transfer(address,uint256)", account.address, deposit.amount)
    order = bytes.fromhex(stand.usdc[2:]) + bytes(32) + transfer
    for data in (b"", order, transfer, order[:20], b"\0" * 51):
        with pytest.raises(Reverted, match="OnlyFactory"):
            stand.devnet.send(account, at, data)
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_earlier_dust_neither_stops_nor_joins_a_burn(stand: Stand) -> None:
    deposit = stand.deposit(refund_to=PAYER.address.lower())
    at = stand.pay(deposit, 1)
    stand.pay(deposit)
    stand.send(OPERATOR, burn(stand, deposit))
    assert stand.devnet.balance_of(stand.usdc, at) == 1
    stand.send(OPERATOR, refund_call(stand.network, deposit, stand.usdc))
    assert stand.devnet.balance_of(stand.usdc, PAYER.address) == 1


# Code


def test_contracts_contain_no_forbidden_opcode(stand: Stand) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    stand.send(OPERATOR, burn(stand, deposit))
    forwarder = bytes.fromhex(stand.code(at)[2:])
    factory = bytes.fromhex(stand.code(stand.devnet.addresses.deposit_factory)[2:])
    # The forwarder's creation code lies behind the factory's own, as data.
    made = artifact("DepositForwarder", DEPOSIT_ARTIFACTS).bytecode
    assert factory.count(made) == 1
    own = factory[: factory.index(made)]
    for code in (forwarder, own):
        assert [FORBIDDEN[each] for each in opcodes(code) if each in FORBIDDEN] == []
    assert 0xF5 not in set(opcodes(forwarder))


def test_code_at_a_deposit_address_cannot_be_replaced(stand: Stand) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    code = artifact("DepositForwarder", DEPOSIT_ARTIFACTS).bytecode
    stand.devnet.send(MALLORY, DETERMINISTIC_DEPLOYER, bytes(32) + code)
    assert stand.code(at) == "0x"
    stand.send(OPERATOR, burn(stand, deposit))
    before = stand.code(at)
    stand.pay(deposit)
    stand.send(OPERATOR, burn(stand, deposit))
    assert stand.code(at) == before


def test_factory_is_deployed_once(stand: Stand) -> None:
    factory = artifact("DepositFactory", DEPOSIT_ARTIFACTS).bytecode
    assert stand.code(stand.devnet.addresses.deposit_factory) != "0x"
    with pytest.raises(RpcFailed, match="reverted"):
        stand.devnet.send(MALLORY, DETERMINISTIC_DEPLOYER, bytes(32) + factory)


def test_forwarder_deployed_by_another_account_still_burns(stand: Stand) -> None:
    """A refund of a worthless token deploys a released forwarder before its operator does."""
    deposit = stand.released()
    at = stand.pay(deposit)
    token = stand.make("CallbackCoin")
    stand.devnet.send(MALLORY, token, encode_call("mint(address,uint256)", at, 1))
    stand.send(MALLORY, refund_call(stand.network, deposit, token))
    assert stand.code(at) != "0x"
    stand.send(OPERATOR, burn(stand, deposit))
    assert stand.devnet.balance_of(stand.usdc, at) == 0


def test_forced_native_coin_is_refunded_and_blocks_no_call(stand: Stand) -> None:
    payee = "0x" + "77" * 20
    deposit = stand.deposit(bridge="oft", refund_to=payee)
    at = stand.pay(deposit)
    for _ in range(2):
        # PUSH20 address, SELFDESTRUCT: a contract that pays as it is made, and cannot be refused.
        force = b"\x73" + bytes.fromhex(at[2:]) + b"\xff"
        stand.devnet.wait(stand.devnet.submit(MALLORY, None, force, value=11))
        if stand.code(at) == "0x":
            stand.send(OPERATOR, send_call(stand.network, deposit), value=NATIVE_FEE)
    assert stand.devnet.balance_of(stand.usdt0, at) == 0
    assert stand.native(at) == 22
    stand.send(OPERATOR, refund_native_call(stand.network, deposit))
    assert stand.native(payee) == 22


def test_foreign_deployment_cannot_take_a_deposit_address(stand: Stand) -> None:
    deposit = stand.deposit()
    code = artifact("DepositForwarder", DEPOSIT_ARTIFACTS).bytecode
    by_nonce = {create_address(MINE, nonce) for nonce in range(128)}
    assert stand.address(deposit) not in by_nonce
    assert stand.address(deposit) != create2_address(DETERMINISTIC_DEPLOYER, bytes(32), code)


# Whoever has the operator's key


def test_operator_cannot_exceed_the_promised_fee(stand: Stand) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    allowed = deposit.amount - deposit.min_received
    # Terms take 8 words and the route's place one: then the fee.
    greedy = with_word(burn(stand, deposit), 9, (allowed + 1).to_bytes(32, "big"))
    with pytest.raises(Reverted, match=rf"FeeAboveTerms\({allowed + 1}, {allowed}\)"):
        stand.send(OPERATOR, greedy)
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


@pytest.mark.parametrize(
    ("index", "word"),
    [
        (2, (1).to_bytes(32, "big")),
        (3, (1).to_bytes(32, "big")),
        (4, bytes(32)),
        (5, bytes(12) + bytes.fromhex(MINE[2:])),
        (7, (1).to_bytes(32, "big")),
    ],
    ids=["amount", "min_received", "transfer_id", "refund_to", "expires_at"],
)
def test_operator_cannot_change_any_word_of_the_terms(
    stand: Stand, index: int, word: bytes
) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    with pytest.raises(Reverted):
        stand.send(OPERATOR, with_word(burn(stand, deposit), index, word))
    refund = refund_call(stand.network, deposit, stand.usdc)
    with pytest.raises(Reverted, match="NothingToRefund"):
        stand.send(OPERATOR, with_word(refund, index, word))
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_refund_to_the_zero_address_is_refused(stand: Stand) -> None:
    """Our encoder refuses such terms, so the call is patched from valid ones."""
    deposit = stand.deposit()
    for call in (
        refund_call(stand.network, deposit, stand.usdc),
        refund_native_call(stand.network, deposit),
    ):
        with pytest.raises(Reverted, match="ZeroRefundAddress"):
            stand.send(OPERATOR, with_word(call, 5, bytes(32)))


# Tokens and accounts that call back, refuse, or take more


@dataclass(frozen=True)
class Bait:
    """A token or an account of an attacker's that makes a call when it is touched."""

    stand: Stand
    at: EvmAddress

    def plant(self, call: FactoryCall) -> None:
        planted = encode_call("plant(address,bytes)", call.to, call.data)
        self.stand.devnet.send(MALLORY, self.at, planted)

    def outcome(self) -> tuple[bool, bool]:
        """Whether it was touched, and whether its call went through."""
        [called] = self.stand.devnet.call(self.at, "called()", returns="(bool)")
        [succeeded] = self.stand.devnet.call(self.at, "succeeded()", returns="(bool)")
        return called, succeeded


Calls = Callable[[Stand, Deposit], FactoryCall]
REENTRIES: dict[str, Calls] = {
    "burn": burn,
    "refund": lambda stand, deposit: refund_call(stand.network, deposit, stand.usdc),
    "refund native": lambda stand, deposit: refund_native_call(stand.network, deposit),
    "order the forwarder": lambda stand, deposit: FactoryCall(
        stand.address(deposit),
        bytes.fromhex(stand.usdc[2:])
        + bytes(32)
        + encode_call("transfer(address,uint256)", MINE, deposit.amount),
    ),
}


@pytest.mark.parametrize("reentry", REENTRIES)
def test_reentrant_token_fails(stand: Stand, reentry: str) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    token = Bait(stand, stand.make("CallbackCoin"))
    token.plant(REENTRIES[reentry](stand, deposit))
    stand.devnet.send(MALLORY, token.at, encode_call("mint(address,uint256)", at, 1))
    stand.send(OPERATOR, refund_call(stand.network, deposit, token.at))
    assert token.outcome() == (True, False)
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_reentrant_token_after_release_makes_only_open_calls(stand: Stand) -> None:
    deposit = stand.released(refund_to=PAYER.address.lower())
    at = stand.pay(deposit)
    token = Bait(stand, stand.make("CallbackCoin"))
    token.plant(refund_call(stand.network, deposit, stand.usdc))
    stand.devnet.send(MALLORY, token.at, encode_call("mint(address,uint256)", at, 1))
    stand.send(MALLORY, refund_call(stand.network, deposit, token.at))
    assert token.outcome() == (True, True)
    assert stand.devnet.balance_of(stand.usdc, PAYER.address) == deposit.amount


@pytest.mark.parametrize("reentry", REENTRIES)
def test_reentrant_refund_account_fails(stand: Stand, reentry: str) -> None:
    account = Bait(stand, stand.make("CallingBack"))
    deposit = stand.deposit(refund_to=account.at)
    at = stand.pay(deposit)
    account.plant(REENTRIES[reentry](stand, deposit))
    stand.devnet.send(MALLORY, at, b"", value=5)
    stand.send(OPERATOR, refund_native_call(stand.network, deposit))
    assert account.outcome() == (True, False)
    assert (stand.native(account.at), stand.native(at)) == (5, 0)
    assert stand.devnet.balance_of(stand.usdc, at) == deposit.amount


def test_refund_refused_by_the_account_stays_in_place(stand: Stand) -> None:
    deposit = stand.deposit(refund_to=stand.usdc)
    at = stand.pay(deposit)
    stand.devnet.send(MALLORY, at, b"", value=5)
    with pytest.raises(RpcFailed, match="reverted"):
        stand.send(OPERATOR, refund_native_call(stand.network, deposit))
    assert stand.native(at) == 5
    stand.send(OPERATOR, burn(stand, deposit))


@pytest.mark.parametrize(
    ("name", "reason"), [("RefusingCoin", "TokenRefused"), ("FeeOnTopCoin", "balance")]
)
def test_refusing_or_charging_token_stops_only_its_own_refund(
    stand: Stand, name: str, reason: str
) -> None:
    deposit = stand.deposit()
    at = stand.pay(deposit)
    token = stand.make(name)
    stand.devnet.send(MALLORY, token, encode_call("mint(address,uint256)", at, 100))
    with pytest.raises(Reverted, match=reason):
        stand.send(OPERATOR, refund_call(stand.network, deposit, token))
    stand.send(OPERATOR, burn(stand, deposit))
    assert stand.devnet.balance_of(stand.usdc, at) == 0


@pytest.mark.parametrize("name", ["RefusingCoin", "FeeOnTopCoin"])
def test_deposit_in_refusing_or_charging_token_is_not_bridged(stand: Stand, name: str) -> None:
    """The issuer may change its token to one of these: no step is half done."""
    token = stand.make(name)
    adapter = stand.make("OftAdapter", ("address",), token)
    there = replace(stand, network=stand.with_chain(usdt0=token, oft=adapter))
    deposit = there.deposit(bridge="oft", amount=100, min_received=99)
    at = there.address(deposit)
    stand.devnet.send(MALLORY, token, encode_call("mint(address,uint256)", at, 100))
    with pytest.raises(Reverted, match=r"TokenRefused|balance"):
        there.send(OPERATOR, send_call(there.network, deposit))
    assert stand.devnet.balance_of(token, at) == 100
    assert stand.code(at) == "0x"


def test_address_without_code_is_not_a_token(stand: Stand) -> None:
    deposit = stand.deposit()
    with pytest.raises(RpcFailed, match="reverted"):
        stand.send(OPERATOR, refund_call(stand.network, deposit, EvmAddress(MINE)))


# Any sequence


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pay", "dust", "burn", "refund", "native", "order", "forged"]),
        st.sampled_from(sorted(ACCOUNTS)),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_funds_stay_or_go_to_owner_or_payer_in_any_sequence(
    stand: Stand, steps: list[tuple[str, str, bool]]
) -> None:
    """Two deposits, one released; random calls by all accounts; every unit is accounted for."""
    snapshot = stand.devnet.rpc("evm_snapshot")
    payee = "0x" + "77" * 20
    both = {
        False: stand.deposit(refund_to=payee),
        True: stand.released(refund_to=payee, owner=STRANGER),
    }
    supply = stand.devnet.call(stand.usdc, "totalSupply()", returns="(uint256)")[0]
    paid = burned = 0
    for what, who, released in steps:
        deposit, account = both[released], ACCOUNTS[who]
        if what in ("pay", "dust"):
            amount = deposit.amount if what == "pay" else 3
            stand.pay(deposit, amount)
            paid += amount
            continue
        calls: dict[str, FactoryCall] = {
            "burn": burn(stand, deposit),
            "refund": refund_call(stand.network, deposit, stand.usdc),
            "native": refund_native_call(stand.network, deposit),
            "order": REENTRIES["order the forwarder"](stand, deposit),
            "forged": refund_call(stand.network, replace(deposit, refund_to=MINE), stand.usdc),
        }
        call = calls[what]
        done = stand.devnet.send(account, call.to, call.data, gas=600_000)
        burned += deposit.amount if what == "burn" and done.succeeded else 0
        assert not (what == "burn" and done.succeeded and who != "operator")
        if what == "refund" and done.succeeded:
            assert who == "operator" or released
    balances = [stand.devnet.balance_of(stand.usdc, each) for each in (payee, MINE, NOBODY)]
    left = sum(stand.devnet.balance_of(stand.usdc, stand.address(each)) for each in both.values())
    now = stand.devnet.call(stand.usdc, "totalSupply()", returns="(uint256)")[0]
    stand.devnet.rpc("evm_revert", snapshot)
    assert balances[0] + left + burned == paid
    assert balances[1:] == [0, 0]
    assert now == supply + paid - burned
