"""Protocols 28, 29 and 30: ledger format, upgrades, close times, muxed contract addresses.

Headers are read by hand here, by the layout of `LedgerHeader` in stellar-xdr v30.0.
"""

import itertools
import json
from dataclasses import dataclass
from hashlib import sha256

import pytest
from stellar_sdk import Asset, StrKey, scval, xdr
from stellar_sdk.operation import InvokeHostFunction

from devnet.stellar import building
from devnet.stellar.accounts import NETWORK_ID, USDC, VALIDATOR, keypair
from devnet.stellar.asset_events import token_contract
from devnet.stellar.genesis import Genesis
from devnet.stellar.node import Node, NotAnUpgrade, TimeWentBack, fixed_clock, wall_clock
from devnet.stellar.protocol30 import MuxedContract, read
from devnet.stellar.registry import devnet_contracts, unwired
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import answer
from devnet.stellar.store import Store
from tests.devnet.stellar.chain import UNIT, Chain, codes, events

CONTRACT = bytes.fromhex("363eaa3867841fbad0f4ed88c779e4fe66e56a2470dc98c0ec9c073d05c7b103")
STRKEY = "WA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAAAAAAAAAPCIA6IG"


def start(protocol=30, clock=fixed_clock, store=None):
    return Chain(node=Node(Genesis(unwired(), protocol=protocol), clock=clock, store=store))


@dataclass
class Header:
    version: int
    set_hash: bytes
    close_time: int
    upgrades: list[bytes]
    arm: int
    rest: bytes
    """What follows the arm's discriminant, to the end of the header."""

    @property
    def close_time_ms(self):
        return int.from_bytes(self.rest[:8], "big")


def header_of(row):
    """The header of `LedgerHeaderHistoryEntry`, which begins after the ledger's hash."""
    raw = row.header[32:]
    assert sha256(raw[: len(raw) - 4]).hexdigest() == row.hash
    count, at, upgrades = int.from_bytes(raw[76:80], "big"), 80, []
    for _ in range(count):
        length = int.from_bytes(raw[at : at + 4], "big")
        upgrades.append(raw[at + 4 : at + 4 + length])
        at += 4 + length + -length % 4
    arm = int.from_bytes(raw[at : at + 4], "big")
    version, close_time = int.from_bytes(raw[:4], "big"), int.from_bytes(raw[68:76], "big")
    return Header(version, raw[36:68], close_time, upgrades, arm, raw[at + 4 :])


def headers(chain):
    last = chain.node.latest.sequence
    return [header_of(chain.node.ledger(sequence)) for sequence in range(2, last + 1)]


def test_upgrade_ledger_keeps_the_old_arm():
    chain = start(28)
    chain.node.close_ledger()
    for protocol in (29, 30):
        chain.node.upgrade(protocol)
        chain.node.close_ledger()
        chain.node.close_ledger()
    assert [(each.version, each.arm) for each in headers(chain)] == [
        (28, 1),
        (28, 1),
        (29, 1),
        (29, 1),
        (30, 1),
        (30, 3),
    ]
    # LEDGER_UPGRADE_VERSION is 1.
    assert [each.upgrades for each in headers(chain)] == [
        [],
        [],
        [bytes.fromhex("000000010000001d")],
        [],
        [bytes.fromhex("000000010000001e")],
        [],
    ]
    meta = read(xdr.LedgerCloseMeta, chain.node.ledger(6).meta).v2
    assert [each.upgrade.new_ledger_version.uint32 for each in meta.upgrades_processing] == [30]


def test_upgrade_to_protocol_in_force_is_refused():
    chain = start(29)
    for protocol in (28, 29):
        with pytest.raises(NotAnUpgrade):
            chain.node.upgrade(protocol)


def test_whole_seconds_agree_with_milliseconds():
    chain = start()
    for ms in (1, 999, 1_000, 1_001, 64_321):
        chain.node.close_ledger(close_time_ms=chain.now * 1000 + ms)
    assert {each.arm for each in headers(chain)} == {3}
    assert all(each.close_time == each.close_time_ms // 1000 for each in headers(chain))
    times = [each.close_time_ms for each in headers(chain)]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_many_ledgers_close_in_one_second():
    chain = start()
    second = chain.now + 5
    for ms in range(20):
        chain.node.close_ledger(close_time_ms=second * 1000 + ms)
    closed = headers(chain)[-20:]
    assert {each.close_time for each in closed} == {second}
    assert [each.close_time_ms for each in closed] == [second * 1000 + ms for ms in range(20)]
    with pytest.raises(TimeWentBack):
        chain.node.close_ledger(close_time_ms=second * 1000 + 19)


@pytest.mark.parametrize("protocol", [28, 29])
def test_ledgers_before_protocol_30_close_at_whole_seconds(protocol):
    chain = start(protocol)
    second = chain.now + 5
    for ms in (400, 1_001):
        chain.node.close_ledger(close_time_ms=second * 1000 + ms)
    assert [each.close_time for each in headers(chain)[-2:]] == [second + 1, second + 2]
    with pytest.raises(TimeWentBack):
        chain.node.close_ledger(close_time_ms=second * 1000 + 2_000)


@pytest.mark.parametrize(("protocol", "step"), [(29, 1_000), (30, 1)])
def test_wall_clock_ahead_of_time_moves_by_the_smallest_step(protocol, step):
    chain = start(protocol, wall_clock)
    ahead = wall_clock(0) // 1000 * 1000 + 60_000
    chain.node.close_ledger(close_time_ms=ahead)
    assert chain.node.close_ledger().close_time_ms == ahead + step


@pytest.mark.parametrize(("protocol", "arm"), [(28, 2), (30, 4)])
def test_ledger_without_its_set_has_proposed_set_hash(protocol, arm):
    chain = start(protocol)
    previous = chain.node.latest
    sent = chain.submit(keypair("admin"), [building.call(token_contract(USDC), "decimals")])
    chain.node.close_ledger(without_set=True)
    closed = header_of(chain.node.latest)
    assert closed.arm == arm
    assert chain.node.latest.transactions == ()
    proposed, parent = (rest := closed.rest[8 * (arm == 4) :])[:32], rest[32:64]
    assert proposed not in (closed.set_hash, bytes(32))
    assert parent.hex() == previous.hash
    assert int.from_bytes(rest[64:68], "big") == protocol
    chain.node.close_ledger()
    assert chain.node.transaction(sent.hash).ledger == chain.node.latest.sequence


@pytest.mark.parametrize("without_set", [False, True])
def test_validator_signs_the_milliseconds(without_set):
    chain = start()
    chain.node.close_ledger(close_time_ms=chain.now * 1000 + 1_234, without_set=without_set)
    closed = header_of(chain.node.latest)
    named, at = (closed.rest[8:40], 76) if without_set else (closed.set_hash, 8)
    # The validator's key (type and 32 bytes), the signature's length and its 64 bytes.
    signature = closed.rest[at + 40 : at + 104]
    signed = NETWORK_ID + (4).to_bytes(4, "big") + named
    signed += closed.close_time.to_bytes(8, "big") + closed.close_time_ms.to_bytes(8, "big")
    keypair(VALIDATOR).verify(sha256(signed).digest(), signature)


def test_sdk_cannot_read_protocol_30_ledgers():
    """The stand-in's definitions must not leak into readers under test."""
    with pytest.raises(ValueError, match="3 is not a valid StellarValueType"):
        xdr.LedgerCloseMeta.from_xdr_bytes(start().node.latest.meta)
    address = xdr.SCVal(xdr.SCValType.SCV_ADDRESS, address=MuxedContract.from_strkey(STRKEY))
    with pytest.raises(ValueError, match="5 is not a valid SCAddressType"):
        xdr.SCVal.from_xdr_bytes(address.to_xdr_bytes())


def test_stored_chain_continues_after_an_upgrade(tmp_path):
    store = Store(tmp_path)
    chain = start(29, store=store)
    chain.node.upgrade(30)
    chain.node.close_ledger()
    chain.node.close_ledger()
    last = chain.node.close_ledger(close_time_ms=chain.now * 1000 + 7)
    store.close()
    again = start(29, store=Store(tmp_path))
    assert again.node.latest == last
    assert header_of(again.node.close_ledger(close_time_ms=last.close_time_ms + 1)).arm == 3


# RPC


def ask(chain, method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return answer(Rpc(chain.node), json.dumps(body).encode())


def test_rpc_reports_the_protocol_in_force():
    chain = start(28)
    protocols = []
    for protocol in (29, 30):
        assert ask(chain, "devnet_upgrade", protocolVersion=protocol)["result"]
        protocols.append(
            {
                ask(chain, method)["result"]["protocolVersion"]
                for method in ("getNetwork", "getVersionInfo", "getLatestLedger")
            }
        )
        chain.node.close_ledger()
    assert protocols == [{28}, {29}]
    assert ask(chain, "getNetwork")["result"]["protocolVersion"] == 30
    assert ask(chain, "devnet_upgrade", protocolVersion=30)["error"]["code"] == -32602


def test_rpc_events_have_no_success_flag():
    event = ask(start(), "getEvents", startLedger=2)["result"]["events"][0]
    assert "inSuccessfulContractCall" not in event
    assert {"type", "ledger", "ledgerClosedAt", "contractId", "id", "txHash"} < set(event)


# Muxed contracts


def test_muxed_contract_has_the_published_strkey_and_bytes():
    address = MuxedContract(CONTRACT, 123456)
    assert address.strkey == STRKEY
    assert MuxedContract.from_strkey(STRKEY) == address
    wire = (5).to_bytes(4, "big") + (123456).to_bytes(8, "big") + CONTRACT
    assert address.to_xdr_bytes() == wire
    assert read(xdr.SCAddress, wire) == address


@pytest.mark.parametrize(
    "text",
    ["", STRKEY[:-1], STRKEY[:-1] + "H", StrKey.encode_contract(CONTRACT)],
    ids=["empty", "short", "checksum", "contract"],
)
def test_other_text_is_not_a_muxed_contract(text):
    with pytest.raises(ValueError, match="not a muxed contract address"):
        MuxedContract.from_strkey(text)


def muxed_escrow(muxed_id=77):
    escrow = devnet_contracts().escrow
    return escrow, xdr.SCVal(
        xdr.SCValType.SCV_ADDRESS, address=MuxedContract(StrKey.decode_contract(escrow), muxed_id)
    )


def test_transfer_to_a_muxed_contract_names_the_customer():
    chain = start()
    alice = chain.open("alice", usdc=5 * UNIT)
    escrow, muxed = muxed_escrow()
    token = token_contract(USDC)
    row = chain.call(
        alice, token, "transfer", scval.to_address(alice.public_key), muxed, scval.to_int128(UNIT)
    )
    name = f"USDC:{USDC.issuer}"
    transfer = (
        token,
        ["transfer", alice.public_key, escrow, name],
        {"amount": UNIT, "to_muxed_id": 77},
    )
    assert [transfer] == [each for each in events(row) if each[1][0] == "transfer"]
    assert muxed.to_xdr_bytes() in row.envelope


def test_mint_to_a_muxed_contract_names_the_customer():
    chain = start()
    alice = chain.open("alice")
    escrow, muxed = muxed_escrow(2**64 - 1)
    own = Asset("OWN", alice.public_key)
    chain.run(alice, deployed(own))
    row = chain.call(alice, token_contract(own), "mint", muxed, scval.to_int128(UNIT))
    topics = ["mint", escrow, f"OWN:{alice.public_key}"]
    minted = (token_contract(own), topics, {"amount": UNIT, "to_muxed_id": 2**64 - 1})
    assert events(row) == [minted]


def deployed(asset):
    preimage = xdr.ContractIDPreimage(
        xdr.ContractIDPreimageType.CONTRACT_ID_PREIMAGE_FROM_ASSET, from_asset=asset.to_xdr_object()
    )
    executable = xdr.ContractExecutable(
        xdr.ContractExecutableType.CONTRACT_EXECUTABLE_STELLAR_ASSET
    )
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_CREATE_CONTRACT
    create = xdr.CreateContractArgs(preimage, executable)
    return InvokeHostFunction(xdr.HostFunction(kind, create_contract=create))


def test_muxed_contract_cannot_send():
    chain = start()
    alice = chain.open("alice", usdc=5 * UNIT)
    _, muxed = muxed_escrow()
    row = chain.call(
        alice,
        token_contract(USDC),
        "transfer",
        muxed,
        scval.to_address(alice.public_key),
        scval.to_int128(UNIT),
    )
    assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_TRAPPED")


def test_muxed_contract_is_invalid_before_protocol_30():
    chain = start()
    alice = chain.open("alice", usdc=5 * UNIT)
    _, muxed = muxed_escrow()
    arguments = [scval.to_address(alice.public_key), muxed, scval.to_int128(UNIT)]
    transfer = building.call(token_contract(USDC), "transfer", *arguments)
    envelope = chain.envelope(alice, [transfer])
    sent = {"transaction": envelope.to_xdr()}
    before = start(29)
    assert ask(before, "sendTransaction", **sent)["error"]["message"] == "invalid_xdr"
    assert "unmarshal" in ask(before, "simulateTransaction", **sent)["result"]["error"]
    assert "error" not in ask(chain, "simulateTransaction", **sent)["result"]
    assert ask(chain, "sendTransaction", **sent)["result"]["status"] == "PENDING"
