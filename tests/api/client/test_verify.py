"""The client verifies the EVM calls that a server shows before it signs them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.actions.evm_calls import BurnOrder, UnsignedCall, encode_order, evm_calls, evm_order
from indexer.config.networks import load_network
from isthmus_client import ActionNotTrusted
from isthmus_client.contracts import MAINNET as KNOWN
from isthmus_client.contracts import TESTNET as KNOWN_FOR_TESTS
from isthmus_client.models import EvmCalls
from isthmus_client.verify import Deposit, check_calls
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TRANSFER, make_agreed

OTHER = "0x" + "0c" * 20
MECHANISMS: dict[str, Any] = {"usdc-deposit": "cctp", "usdt0-deposit": "oft"}


def meant(route: Any = "usdc-deposit", **changes: Any) -> Deposit:
    usual = Deposit(TRANSFER, route, ETHEREUM, PAYER, OWNER, 20_000_000, 199_900_000, 1_100)
    return replace(usual, **changes)


def shown(*calls: UnsignedCall, chain: int = 1) -> EvmCalls:
    return EvmCalls.model_validate(
        {
            "kind": "evm_calls",
            "chainId": chain,
            "calls": [
                {"to": call.to, "data": f"0x{call.data.hex()}", "value": str(call.value)}
                for call in calls
            ],
        }
    )


def issued(route: str, allowance: Any = 0) -> tuple[UnsignedCall, ...]:
    agreed = make_agreed(mechanism=MECHANISMS[route])
    return evm_calls(MAINNET, agreed, allowance)


def refused(calls: EvmCalls, deposit: Deposit) -> str:
    with pytest.raises(ActionNotTrusted) as error:
        check_calls(calls, deposit, KNOWN)
    return str(error.value)


@pytest.mark.parametrize(
    ("route", "allowance"),
    [("usdc-deposit", 0), ("usdc-deposit", None), ("usdt0-deposit", 7), ("usdt0-deposit", None)],
)
def test_issued_calls_are_verified(route, allowance):
    check_calls(shown(*issued(route, allowance)), meant(route), KNOWN)


@pytest.mark.parametrize(("known", "name"), [(KNOWN, "mainnet"), (KNOWN_FOR_TESTS, "testnet")])
def test_known_contracts_equal_the_network_file(known, name):
    network = load_network(name)
    assert known.evm.keys() == {chain.id for chain in network.evm}
    for chain in network.evm:
        at = known.evm[chain.id]
        assert (at.usdc, at.token_messenger) == (chain.usdc, chain.cctp_token_messenger)
        assert (at.usdt0, at.oft) == (chain.usdt0, chain.oft)
    stellar = network.stellar
    assert (known.cctp_forwarder, known.cctp_domain) == (
        stellar.cctp_forwarder,
        stellar.cctp_domain,
    )
    assert stellar.lz_eid in (known.lz_eid, None)


BURN: Any = evm_order(MAINNET, make_agreed())
SEND: Any = evm_order(MAINNET, make_agreed(mechanism="oft"))
WORD = "0x" + "0d" * 32
HOSTILE: dict[str, Any] = {
    "more is burned": replace(BURN, amount=BURN.amount + 1),
    "less is burned": replace(BURN, amount=BURN.amount - 1),
    "to another chain": replace(BURN, domain=0),
    "to somebody on it": replace(BURN, mint_recipient=WORD),
    "another token is": replace(BURN, token=OTHER),
    "anybody may deliver it": replace(BURN, destination_caller="0x" + "00" * 32),
    "for a higher fee": replace(BURN, max_fee=BURN.max_fee + 1),
    "at no known speed": replace(BURN, min_finality=500),
    "for another account": replace(
        BURN, hook_data=BURN.hook_data[:40] + b"A" + BURN.hook_data[41:]
    ),
    "without our label": replace(BURN, hook_data=BURN.hook_data[:-16]),
    "under another label": replace(BURN, hook_data=BURN.hook_data[:-1] + b"\x00"),
    "by another contract": replace(BURN, messenger=OTHER),
    "more is sent": replace(SEND, amount=SEND.amount + 1),
    "less is sent": replace(SEND, amount=SEND.amount - 1),
    "sent to another chain": replace(SEND, eid=30110),
    "sent to somebody": replace(SEND, to=WORD),
    "less may arrive": replace(SEND, min_amount=SEND.min_amount - 1),
    "more than is sent may": replace(SEND, min_amount=SEND.amount + 1),
    "with options": replace(SEND, extra_options=b"\x00\x03"),
    "composed with a call": replace(SEND, compose=b"\x01"),
    "with a command": replace(SEND, command=b"\x01"),
    "for a dearer message": replace(SEND, native_fee=1_101, value=1_101),
    "with more value than fee": replace(SEND, native_fee=1_099),
    "what is over goes elsewhere": replace(SEND, refund_to=OTHER),
    "sent by another contract": replace(SEND, oft=OTHER),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_altered_order_is_refused(case):
    order = HOSTILE[case]
    route = "usdc-deposit" if isinstance(order, BurnOrder) else "usdt0-deposit"
    assert refused(shown(encode_order(order)), meant(route))


@pytest.mark.parametrize("route", MECHANISMS)
def test_call_for_another_chain_is_refused(route):
    calls = issued(route)
    assert "eip155:10" in refused(shown(*calls, chain=10), meant(route))
    assert "no bridge" in refused(shown(*calls, chain=424242), meant(route, chain="eip155:424242"))


@pytest.mark.parametrize("route", MECHANISMS)
def test_extra_or_missing_call_is_refused(route):
    approval, last = issued(route)
    transfer = replace(approval, data=bytes.fromhex("a9059cbb") + approval.data[4:])
    for calls in (
        (),
        (approval,),
        (last, approval),
        (approval, last, approval),
        (approval, approval, last),
        (transfer, last),
        (replace(approval, to=OTHER), last),
        (replace(approval, value=1), last),
        (replace(approval, data=approval.data[:-32] + b"\xff" * 32), last),
        (replace(approval, data=approval.data + b"\x00"), last),
        (replace(approval, data=approval.data[:16] + b"\x0c" * 20 + approval.data[36:]), last),
    ):
        assert refused(shown(*calls), meant(route))


def test_usdc_approval_in_two_steps_is_refused():
    approval, last = issued("usdc-deposit")
    to_zero = replace(approval, data=approval.data[:-32] + bytes(32))
    assert refused(shown(to_zero, approval, last), meant())


def test_burn_with_native_value_is_refused():
    [burn] = issued("usdc-deposit", None)
    assert "1 wei" in refused(shown(replace(burn, value=1)), meant())


@given(st.sampled_from(sorted(MECHANISMS)), st.data())
def test_changed_byte_is_refused(route, data):
    [call] = issued(route, None)
    at = data.draw(st.integers(0, len(call.data) - 1))
    altered = bytearray(call.data)
    altered[at] ^= data.draw(st.integers(1, 255))
    assert _is_within_the_promise(route, at, bytes(altered)) or refused(
        shown(replace(call, data=bytes(altered))), meant(route)
    )


def _is_within_the_promise(route: str, at: int, data: bytes) -> bool:
    """What the server may choose: a lower fee and the slower burn, or that more arrives."""
    word, number = (at - 4) // 32, int.from_bytes(data[(at - 4) // 32 * 32 + 4 :][:32], "big")
    if route == "usdt0-deposit":
        return word == 7 and 19_990_000 <= number <= 20_000_000
    return (word == 5 and number <= 10_000) or (word == 6 and number == 2000)


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data):
    [call] = issued("usdc-deposit", None)
    assert refused(shown(replace(call, data=data)), meant())


@pytest.mark.parametrize(
    "changes",
    [
        {"transfer": "5e" * 16},
        {"transfer": "no id"},
        {"recipient": "GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV"},
        {"recipient": "G" + OWNER},
        {"amount": 20_000_001},
        {"least": 199_900_001},
    ],
)
def test_calls_for_other_terms_are_refused(changes):
    assert refused(shown(*issued("usdc-deposit")), meant(**changes))


def test_payer_with_checksum_is_accepted():
    mixed = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    check_calls(shown(*issued("usdt0-deposit", None)), meant("usdt0-deposit", payer=mixed), KNOWN)


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "verify.md").read_text()


@pytest.mark.parametrize("route", MECHANISMS)
def test_document_shows_issued_calls(route):
    [last] = issued(route, None)
    written = ["0x" + last.data[:4].hex()]
    written += [last.data[at : at + 32].hex() for at in range(4, len(last.data), 32)]
    assert "\n".join(["```", *written, "```"]) in PAGE
    assert all(word in PAGE for word in (TRANSFER, OWNER, last.to, last.data[:4].hex()))
