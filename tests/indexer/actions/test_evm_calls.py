"""EVM calls of a deposit's payer: encoding, approvals, and orders that are never built."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from eth_abi.abi import decode
from hypothesis import given
from hypothesis import strategies as st

from indexer.actions.evm_calls import (
    BurnOrder,
    SendOrder,
    encode_order,
    evm_calls,
    evm_order,
    forward_hook,
    parse_order,
    spender,
)
from indexer.bridges.cctp.message import forward_recipient, transfer_tag
from indexer.config.networks import load_network
from indexer.decode.evm import decode as decode_log
from indexer.errors import ConfigurationError
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TRANSFER, make_agreed, make_log

GOLDEN = Path(__file__).parents[2] / "golden" / "evm" / "sepolia-deposit-for-burn.json"
CHAIN = MAINNET.chain(ETHEREUM)
FORWARDER = "0x72bd20ff2f8281801bb05b7c29179026933256fabafeb13e94efd8ddbcfcf291"
OWNER_KEY = "0x7bc55256d39dd4636bba4c88f790e65068321e2a09f8648d1144bd93a6c5c0a8"
WORDS = ["uint256", "uint32", "bytes32", "address", "bytes32", "uint256", "uint32", "bytes"]


def test_burn_calls_token_messenger_for_the_forwarder():
    [call] = evm_calls(MAINNET, make_agreed(), None)
    assert (call.to, call.value) == (CHAIN.cctp_token_messenger, 0)
    # depositForBurnWithHook(uint256,uint32,bytes32,address,bytes32,uint256,uint32,bytes)
    assert call.data[:4].hex() == "779b432d"
    amount, domain, recipient, token, caller, max_fee, finality, hook = decode(WORDS, call.data[4:])
    assert (amount, domain, token) == (20_000_000, 27, CHAIN.usdc)
    assert "0x" + recipient.hex() == "0x" + caller.hex() == FORWARDER
    assert (max_fee, finality) == (10_000, 1000)
    assert forward_recipient(hook) == OWNER
    assert transfer_tag(hook) == bytes.fromhex(TRANSFER)


def test_send_pays_exact_fee_and_refunds_payer():
    [call] = evm_calls(MAINNET, make_agreed(mechanism="oft"), None)
    assert (call.to, call.value) == (CHAIN.oft, 1_100)
    # send((uint32,bytes32,uint256,uint256,bytes,bytes,bytes),(uint256,uint256),address)
    assert call.data[:4].hex() == "c7c7f5b3"
    kinds = ["(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)", "(uint256,uint256)", "address"]
    (eid, to, amount, least, *rest), fee, refund_to = decode(kinds, call.data[4:])
    assert (eid, "0x" + to.hex(), amount, least) == (30600, OWNER_KEY, 20_000_000, 19_990_000)
    assert (rest, fee, refund_to) == ([b"", b"", b""], (1_100, 0), PAYER)


def test_hook_equals_a_real_burn_plus_transfer_id():
    entry = json.loads(GOLDEN.read_text())["log"]
    testnet = load_network("testnet")
    chain = testnet.chain("eip155:11155111")
    log = make_log(
        chain.cctp_token_messenger, *entry["topics"], data=bytes.fromhex(entry["data"][2:])
    )
    real = decode_log(log, chain)
    agreed = make_agreed(
        testnet,
        chain=chain.id,
        amount_in=real.amount,
        amount_out=10 * (real.amount - real.max_fee),
        dest_address=forward_recipient(real.hook_data),
    )
    burn = evm_order(testnet, agreed)
    assert burn.hook_data == real.hook_data + bytes.fromhex(TRANSFER)
    assert (burn.token, burn.domain) == (real.burn_token, real.destination_domain)
    assert burn.mint_recipient == real.mint_recipient


@pytest.mark.parametrize(
    ("allowance", "approved"), [(0, [20_000_000]), (19_999_999, [20_000_000]), (20_000_000, [])]
)
def test_approval_covers_only_the_missing_allowance(allowance, approved):
    *approvals, _ = evm_calls(MAINNET, make_agreed(), allowance)
    assert [read_approval(each) for each in approvals] == [
        (CHAIN.usdc, CHAIN.cctp_token_messenger, amount) for amount in approved
    ]


@pytest.mark.parametrize(
    ("allowance", "steps"), [(0, [20_000_000]), (1, [0, 20_000_000]), (20_000_001, [])]
)
def test_leftover_oft_allowance_is_reset_to_zero_first(allowance, steps):
    # As Ethereum's USDT wants it.
    *approvals, _ = evm_calls(MAINNET, make_agreed(mechanism="oft"), allowance)
    assert [read_approval(each) for each in approvals] == [
        (CHAIN.usdt0, CHAIN.oft, amount) for amount in steps
    ]


def read_approval(call):
    # approve(address,uint256)
    assert (call.data[:4].hex(), call.value) == ("095ea7b3", 0)
    return (call.to, *decode(["address", "uint256"], call.data[4:]))


@given(st.sampled_from(["cctp", "oft"]), st.integers(1, 10**15), st.data())
def test_encoded_call_parses_to_the_agreed_order(mechanism, amount, data):
    least = data.draw(st.integers(1, amount))
    agreed = make_agreed(mechanism=mechanism, amount_in=amount, amount_out=10 * least)
    order = evm_order(MAINNET, agreed)
    assert parse_order(encode_order(order)) == order
    assert order.amount == amount
    kept = order.max_fee if isinstance(order, BurnOrder) else amount - order.min_amount
    assert amount - kept == least
    assert spender(order) == encode_order(order).to


@pytest.mark.parametrize("amount_out", [0, 199_900_001, 200_000_010])
def test_impossible_amount_out_raises(amount_out):
    with pytest.raises(ValueError, match="cannot be what arrives"):
        evm_calls(MAINNET, make_agreed(amount_out=amount_out), None)


@pytest.mark.parametrize(
    "changes",
    [
        {"deposit_address": "0x" + "dd" * 20},
        {"dest_chain": "eip155:10", "dest_address": PAYER},
        {"source_chain": "stellar:pubnet"},
        {"mechanism": "payment"},
        {"finality_threshold": None},
        {"mechanism": "oft", "native_fee": None},
    ],
)
def test_transfer_other_than_direct_deposit_raises(changes):
    with pytest.raises(ValueError, match=TRANSFER):
        evm_calls(MAINNET, make_agreed(**changes), None)


@pytest.mark.parametrize(
    ("mechanism", "missing"),
    [("cctp", {"cctp_token_messenger": None}), ("oft", {"oft": None})],
)
def test_chain_without_bridge_raises(mechanism, missing):
    network = replace(MAINNET, evm=(replace(CHAIN, **missing),))
    with pytest.raises(ConfigurationError, match="does not lead"):
        evm_calls(network, make_agreed(mechanism=mechanism), None)


def test_malformed_call_is_not_parsed():
    burn, send = (
        encode_order(evm_order(MAINNET, make_agreed(mechanism=m))) for m in ("cctp", "oft")
    )
    for call in (
        replace(burn, data=burn.data[:-32]),
        replace(burn, data=b"\x09\x5e\xa7\xb3" + burn.data[4:]),
        replace(send, data=send.data[:36]),
    ):
        with pytest.raises(ValueError, match="call of"):
            parse_order(call)
    zro = bytearray(send.data)
    zro[4 + 3 * 32 - 1] = 1
    with pytest.raises(ValueError, match="none of ours pays in"):
        parse_order(replace(send, data=bytes(zro)))


def test_hook_is_104_bytes_and_oft_uses_a_send_order():
    assert len(forward_hook(OWNER, TRANSFER)) == 32 + 56 + 16
    assert isinstance(evm_order(MAINNET, make_agreed(mechanism="oft")), SendOrder)
