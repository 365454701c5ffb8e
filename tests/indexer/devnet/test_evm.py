"""The EVM half of the development network, on a real local node."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import decode
from eth_account import Account
from eth_utils.crypto import keccak

from indexer.devnet.evm import (
    NATIVE_FEE,
    STELLAR_EID,
    EvmDevnet,
    create_address,
    deployer,
    dev_account,
    expected_addresses,
    fee_recipient,
    packet_verifier,
)
from indexer.devnet.evm_deployment import ENFORCED_OPTIONS, StellarRemotes, deploy, deployment_plan
from indexer.devnet.evm_messages import (
    CONFIRMED,
    FINALIZED,
    SOURCE_BLANKS,
    ZERO_WORD,
    Attesters,
    BurnMessage,
    Packet,
    address_word,
    message_nonce,
    oft_message,
)
from indexer.devnet.evm_node import (
    ARTIFACTS,
    AnvilFailed,
    AnvilProcess,
    JsonRpc,
    Reverted,
    WrongDeployment,
    artifact,
    encode_call,
    event_topic,
    signature_of,
)
from indexer.devnet.evm_sending import Log, Receipt

REMOTES = StellarRemotes(
    token_messenger_minter=bytes.fromhex(
        "da6f9ee0786c812344d82817ef19b648b4af120f8bd10bf658e6b99eacff24b8"
    ),
    usdc_sac=bytes.fromhex("5045cd5ec0729a768fd5ad02505852df4f028dce830e5ac52209ba48483b2f01"),
    oft=bytes.fromhex("5d672cb21b3afcdda54546c7f5b9fd346920e41f8fe8f39e838e5d7bd7435546"),
)
GENUINE = json.loads((Path(__file__).parents[2] / "golden" / "devnet" / "genuine.json").read_text())
ALICE = dev_account(1)
BOB = dev_account(2)
RELAYER = dev_account(3)
RECIPIENT = bytes.fromhex("7bc55256d39dd4636bba4c88f790e65068321e2a09f8648d1144bd93a6c5c0a8")
ONE = 10**6

TOPICS = {
    "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32,bytes)": (
        "0c8c1cbdc5190613ebd485511d4e2812cfa45eecb79d845893331fedad5130a5"
    ),
    "MintAndWithdraw(address,uint256,address,uint256)": (
        "50c55e915134d457debfa58eb6f4342956f8b0616d51a89a3659360178e1ab63"
    ),
    "MessageSent(bytes)": "8c5261668696ce22758910d05bab8f186d6eb247ceac2af2e82c7dc17669b036",
    "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": (
        "ff48c13eda96b1cceacc6b9edeedc9e9db9d6226afbc30146b720c19d3addb1c"
    ),
    "Transfer(address,address,uint256)": (
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    ),
    "Approval(address,address,uint256)": (
        "8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925"
    ),
    "Mint(address,address,uint256)": (
        "ab8530f87dc9b59234c4623bf917212bb2536d647574c8e7e5da92c2ede0c9f8"
    ),
    "Burn(address,uint256)": "cc16f5dbb4873280815c1ee09dbd06736cffcc184412cf7a71a0fdb75d397ca5",
    "RemoteTokenMessengerAdded(uint32,bytes32)": (
        "4bba2b08298cf59661b4895e384cc2ac3962ce2d71f1b7c11bca52e1169f9599"
    ),
    "RemoteTokenMessengerRemoved(uint32,bytes32)": (
        "3dcea012093dbca2bb8ed7fd2b2ff90305ab70bddda8bbb94d4152735a98f0b1"
    ),
    "MinFeeSet(uint256)": "d4c19c993aeeb50b76da8b158f84806c9d235eff5b86f3a36f12a2e1dd4e6eac",
    "Denylisted(address)": "fa4507bc1f9c730e6e95897024f1fe7d576cf2deb53579d55c14f1ac3439e114",
    "UnDenylisted(address)": "c904e1b03de0c20d7fcf9dbd056daf1bd3815e93f251199de815fd0f0b96e166",
    "Pause()": "6985a02210a168e66602d3235cb6db0e70f92b3ba4d376a33c0f3d9434bff625",
    "Unpause()": "7805862f689e2f13df9f062ff482ad3ad112aca9e0847911ed832e158c525b33",
    "AttesterEnabled(address)": "5b99bab45c72ce67e89466dbc47480b9c1fde1400e7268bbf463b8354ee4653f",
    "AttesterDisabled(address)": "78e573a18c75957b7cadaab01511aa1c19a659f06ecf53e01de37ed92d3261fc",
    "SetBurnLimitPerMessage(address,uint256)": (
        "6aa98de3efb0f031e70a96b4bd97fafc58474ad59f4e890aa3733bba321ecca2"
    ),
    "OFTSent(bytes32,uint32,address,uint256,uint256)": (
        "85496b760a4b7f8d66384b9df21b381f5d1b1e79f229a47aaf4c232edc2fe59a"
    ),
    "OFTReceived(bytes32,uint32,address,uint256)": (
        "efed6d3500546b29533b128a29e3a94d70788727f0507505ac12eaf2e578fd9c"
    ),
    "PacketSent(bytes,bytes,address)": (
        "1ab700d4ced0c005b164c0f789fd09fcbb0156d4c2041b8a3bfbcd961cd1567f"
    ),
    "PacketVerified((uint32,bytes32,uint64),address,bytes32)": (
        "0d87345f3d1c929caba93e1c3821b54ff3512e12b66aa3cfe54b6bcbc17e59b4"
    ),
    "PacketDelivered((uint32,bytes32,uint64),address)": (
        "3cd5e48f9730b129dc7550f0fcea9c767b7be37837cd10e55eb35f734f4bca04"
    ),
    "LzReceiveAlert(address,address,(uint32,bytes32,uint64),"
    "bytes32,uint256,uint256,bytes,bytes,bytes)": (
        "7edfa10fe10193301ad8a8bea7e968c7bcabcc64981f368e3aeada40ce26ae2c"
    ),
    "ComposeSent(address,address,bytes32,uint16,bytes)": (
        "3d52ff888d033fd3dd1d8057da59e850c91d91a72c41dfa445b247dfedeb6dc1"
    ),
    "PeerSet(uint32,bytes32)": "238399d427b947898edb290f5ff0f9109849b1c3ba196a42e35f00c50a54b98b",
    "EnforcedOptionSet((uint32,uint16,bytes)[])": (
        "be4864a8e820971c0247f5992e2da559595f7bf076a21cb5928d443d2a13b674"
    ),
}
INDEXED = {
    "DepositForBurn": {"burnToken", "depositor", "minFinalityThreshold"},
    "MintAndWithdraw": {"mintRecipient", "mintToken"},
    "MessageSent": set(),
    "MessageReceived": {"caller", "nonce", "finalityThresholdExecuted"},
    "Transfer": {"from", "to"},
    "Approval": {"owner", "spender"},
    "Mint": {"minter", "to"},
    "Burn": {"burner"},
    "OFTSent": {"guid", "fromAddress"},
    "OFTReceived": {"guid", "toAddress"},
    "PacketSent": set(),
    "PacketVerified": set(),
    "PacketDelivered": set(),
    "LzReceiveAlert": {"receiver", "executor"},
}
SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
SELECTORS = {
    ("TokenMessenger", "8e0250ee"),
    ("TokenMessenger", "779b432d"),
    ("TokenMessenger", "11cffb67"),
    ("TokenMessenger", "7c92f219"),
    ("TokenMessenger", "24ec7590"),
    ("TokenMessenger", "516990e3"),
    ("TokenMessenger", "e877a526"),
    ("TokenMessenger", "82a5e665"),
    ("MessageTransmitter", "57ecfd28"),
    ("MessageTransmitter", "14b157ab"),
    ("MessageTransmitter", "feb61724"),
    ("MessageTransmitter", "5c975abb"),
    ("MessageTransmitter", "8d3638f4"),
    ("MessageTransmitter", "54fd4d50"),
    ("TokenMinter", "a56ec632"),
    ("TokenMinter", "78a0565e"),
    ("TokenMinter", "5c975abb"),
    *((token, each) for token in ("Usdc", "Usdt0") for each in (
        "095ea7b3", "dd62ed3e", "a9059cbb", "23b872dd", "70a08231",
    )),
    *(("Oft", each) for each in (
        "c7c7f5b3", "3b6f743b", "0d35b415", "fc0c546a", "9f68b964", "857749b0", "963efcaa",
        "156a0d0f", "bb0b6a53", "5535d461", "bc70b354",
    )),
    *(("OftEndpoint", each) for each in (
        "0c0c389e", "c9fc7bcd", "5b17bb70", "9c6d7340", "aafe5e07",
    )),
}  # fmt: skip
ERRORS = {
    "SlippageExceeded": "71c4efed",
    "AmountSDOverflowed": "e2ce9413",
    "NoPeer": "f6ff4fb7",
    "OnlyPeer": "c26bebcc",
    "NotEnoughNative": "9f704120",
    "InvalidOptions": "9a6d49cd",
    "LZ_InsufficientFee": "4f3ec0d3",
    "LZ_PayloadHashNotFound": "7182306f",
    "LZ_ULN_InvalidWorkerOptions": "6592671c",
}
NAMES = {topic: signature.partition("(")[0] for signature, topic in TOPICS.items()}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvmDevnet]:
    log_file = tmp_path_factory.mktemp("evm") / "anvil.log"
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        devnet.faucet_usdc(ALICE.address, 1000 * ONE)
        devnet.faucet_usdt0(ALICE.address, 1000 * ONE)
        devnet.approve(ALICE, devnet.addresses.usdc, devnet.addresses.token_messenger, 1000 * ONE)
        yield devnet


@pytest.fixture
def devnet(network: EvmDevnet) -> Iterator[EvmDevnet]:
    snapshot = network.rpc("evm_snapshot")
    yield network
    network.rpc("evm_revert", snapshot)


def abi_entries(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(ARTIFACTS.glob("*.json")):
        for entry in artifact(path.stem).abi:
            if entry["type"] == kind:
                yield path.stem, entry


def names(receipt: Receipt) -> list[str]:
    return [NAMES[log.topics[0].hex()] for log in receipt.logs]


def address_of(word: bytes) -> str:
    return "0x" + word[12:].hex()


def the_log(receipt: Receipt, name: str) -> Log:
    [log] = [log for log in receipt.logs if NAMES[log.topics[0].hex()] == name]
    return log


def inbound_burn(amount: int = 5 * ONE, **changes) -> bytes:
    at = expected_addresses()
    defaults: dict[str, Any] = {
        "source_domain": 27,
        "destination_domain": 0,
        "sender": REMOTES.token_messenger_minter,
        "recipient": address_word(at.token_messenger),
        "burn_token": REMOTES.usdc_sac,
        "mint_recipient": address_word(BOB.address),
        "amount": amount,
        "message_sender": RECIPIENT,
    }
    return BurnMessage(**(defaults | changes)).encode()


def attested(source: bytes, finality: int = FINALIZED, **values) -> tuple[bytes, bytes]:
    nonce = message_nonce(source, 0)
    return Attesters().attest(source, nonce=nonce, finality_executed=finality, **values)


def inbound_packet(nonce: int = 1, amount: int = 7 * ONE, **changes) -> Packet:
    defaults: dict[str, Any] = {
        "nonce": nonce,
        "src_eid": STELLAR_EID,
        "sender": REMOTES.oft,
        "dst_eid": 30101,
        "receiver": address_word(expected_addresses().oft),
        "message": oft_message(address_word(BOB.address), amount),
    }
    return Packet(**(defaults | changes))


def signers(message: bytes, attestation: bytes) -> list[str]:
    digest = keccak(message)
    parts = [attestation[i : i + 65] for i in range(0, len(attestation), 65)]
    return [Account._recover_hash(digest, signature=part).lower() for part in parts]


# The compiled contracts


def test_every_source_is_compiled_and_no_artifact_is_stale():
    folder = ARTIFACTS.parent
    now = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.sol")
    }
    compiled: dict[str, str] = {}
    for path in ARTIFACTS.glob("*.json"):
        compiled |= json.loads(path.read_text())["sources"]
    assert compiled == now


def test_artifacts_are_written_with_sorted_keys_and_a_trailing_newline():
    for path in ARTIFACTS.glob("*.json"):
        text = path.read_text()
        canonical = json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False)
        # JavaScript breaks no line inside an empty list or object; neither does Python.
        assert text == canonical + "\n", path.name


def test_events_have_the_topics_of_the_real_contracts():
    declared = {signature_of(entry) for _, entry in abi_entries("event")}
    ours_alone = {
        "MinterConfigured(address,uint256)",
        "Blacklisted(address)",
        "UnBlacklisted(address)",
        "TokenPairLinked(address,uint32,bytes32)",
        "LocalMinterAdded(address)",
        "FeeRecipientSet(address)",
    }
    assert declared == TOPICS.keys() | ours_alone
    assert {signature: event_topic(signature).hex() for signature in TOPICS} == TOPICS


def test_events_index_the_same_fields_as_the_real_contracts():
    for _, entry in abi_entries("event"):
        if entry["name"] in INDEXED:
            indexed = {each["name"] for each in entry["inputs"] if each["indexed"]}
            assert indexed == INDEXED[entry["name"]], entry["name"]


def test_functions_have_the_selectors_of_the_real_contracts():
    declared = {
        (contract, keccak(text=signature_of(entry))[:4].hex())
        for contract, entry in abi_entries("function")
    }
    assert declared >= SELECTORS


def test_errors_have_the_selectors_of_the_real_contracts():
    declared = {
        entry["name"]: keccak(text=signature_of(entry))[:4].hex()
        for _, entry in abi_entries("error")
    }
    assert declared | ERRORS == declared


# Deployment


def test_contract_addresses_follow_from_the_deployer_alone():
    assert expected_addresses().usdc == "0x5fbdb2315678afecb367f032d93f642f64180aa3"
    assert expected_addresses().oft == create_address(deployer().address, 6)
    with pytest.raises(ValueError, match="0 to 127"):
        create_address(deployer().address, 128)


def test_the_contracts_are_deployed_where_expected(network: EvmDevnet):
    at = expected_addresses()
    assert network.addresses == at
    assert network.call(at.message_transmitter, "localDomain()", returns="(uint32)") == (0,)
    assert network.call(at.endpoint, "eid()", returns="(uint32)") == (30101,)
    assert network.call(at.oft, "token()", returns="(address)") == (at.usdt0,)
    assert network.call(at.token_messenger, "minFee()", returns="(uint256)") == (0,)
    assert network.call(at.usdc, "decimals()", returns="(uint8)") == (6,)


def test_deploying_twice_only_attaches(network: EvmDevnet):
    height = network.block_number()
    with deploy(network.rpc.url, REMOTES) as again:
        assert again.addresses == network.addresses
    assert network.block_number() == height


def test_a_deployment_with_other_remotes_is_refused(network: EvmDevnet):
    other = StellarRemotes(REMOTES.token_messenger_minter, REMOTES.usdc_sac, oft=bytes(31) + b"\1")
    with pytest.raises(WrongDeployment, match="other remotes"):
        deploy(network.rpc.url, other)


def test_an_interrupted_deployment_is_taken_up_again(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "anvil.log") as anvil:
        complete = deployment_plan(REMOTES)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("indexer.devnet.evm_deployment.deployment_plan", lambda _: complete[:5])
            with pytest.raises(WrongDeployment, match="no code at usdt0"):
                deploy(anvil.rpc_url, REMOTES)
        with deploy(anvil.rpc_url, REMOTES) as devnet:
            assert devnet.block_number() == len(complete)


def test_a_foreign_use_of_the_deployer_is_noticed(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "anvil.log") as anvil:
        transfer = {"from": deployer().address, "to": ALICE.address, "value": "0x1"}
        with JsonRpc(anvil.rpc_url) as rpc:
            rpc("eth_sendTransaction", transfer)
        with pytest.raises(WrongDeployment, match="no code at usdc"):
            deploy(anvil.rpc_url, REMOTES)


# CCTP, outbound


def test_a_burn_logs_in_the_order_of_the_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    receipt = devnet.deposit_for_burn(ALICE, amount=3 * ONE, mint_recipient=RECIPIENT, max_fee=7)
    assert names(receipt) == ["Transfer", "Burn", "Transfer", "MessageSent", "DepositForBurn"]
    pulled, burn, destroyed, sent, deposit = receipt.logs
    assert [log.address for log in receipt.logs] == [
        at.usdc,
        at.usdc,
        at.usdc,
        at.message_transmitter,
        at.token_messenger,
    ]
    assert [address_of(topic) for topic in pulled.topics[1:]] == [
        ALICE.address.lower(),
        at.token_minter,
    ]
    assert address_of(burn.topics[1]) == at.token_minter
    assert destroyed.topics[1:] == (address_word(at.token_minter), ZERO_WORD)
    assert decode(["bytes"], sent.data) == devnet.sent_messages(receipt)
    assert deposit.topics[1:] == (
        address_word(at.usdc),
        address_word(ALICE.address),
        FINALIZED.to_bytes(32, "big"),
    )
    assert len(deposit.data) == 256


def test_a_burn_sends_the_bytes_of_a_burn_message(devnet: EvmDevnet):
    at = devnet.addresses
    receipt = devnet.deposit_for_burn_with_hook(
        ALICE,
        amount=3 * ONE,
        mint_recipient=RECIPIENT,
        hook_data=b"hook",
        destination_caller=RECIPIENT,
        max_fee=7,
        min_finality=CONFIRMED,
    )
    expected = BurnMessage(
        source_domain=0,
        destination_domain=27,
        sender=address_word(at.token_messenger),
        recipient=REMOTES.token_messenger_minter,
        burn_token=address_word(at.usdc),
        mint_recipient=RECIPIENT,
        amount=3 * ONE,
        message_sender=address_word(ALICE.address),
        destination_caller=RECIPIENT,
        max_fee=7,
        min_finality=CONFIRMED,
        hook_data=b"hook",
    )
    assert devnet.sent_messages(receipt) == (expected.encode(),)


def test_a_burn_repeats_a_genuine_sepolia_log_byte_for_byte(devnet: EvmDevnet):
    genuine = GENUINE["deposit_for_burn"]
    data = bytes.fromhex(genuine["data"][2:])
    amount, recipient, _, _, caller, max_fee, hook = decode(
        ["uint256", "bytes32", "uint32", "bytes32", "bytes32", "uint256", "bytes"], data
    )
    receipt = devnet.deposit_for_burn_with_hook(
        ALICE,
        amount=amount,
        mint_recipient=recipient,
        hook_data=hook,
        destination_caller=caller,
        max_fee=max_fee,
        min_finality=int(genuine["topics"][3], 16),
    )
    log = the_log(receipt, "DepositForBurn")
    assert log.data == data
    assert [log.topics[0].hex(), log.topics[3].hex()] == [
        genuine["topics"][0][2:],
        genuine["topics"][3][2:],
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"amount": 0}, "Amount must be nonzero"),
        ({"mint_recipient": ZERO_WORD}, "Mint recipient must be nonzero"),
        ({"max_fee": ONE}, "Max fee must be less than amount"),
        ({"destination_domain": 6}, "No TokenMessenger for domain"),
        ({"amount": 1001 * ONE}, "ERC20: transfer amount exceeds allowance"),
    ],
)
def test_a_wrong_burn_is_refused_with_the_real_text(devnet: EvmDevnet, change, text):
    burn = {"amount": ONE, "mint_recipient": RECIPIENT} | change
    with pytest.raises(Reverted) as refused:
        devnet.deposit_for_burn(ALICE, **burn)
    assert refused.value.name == text


def test_a_burn_with_an_empty_hook_is_refused(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="Hook data is empty"):
        devnet.deposit_for_burn_with_hook(ALICE, amount=1, mint_recipient=RECIPIENT, hook_data=b"")


@pytest.mark.parametrize(
    ("contract", "call", "text"),
    [
        (
            "token_messenger",
            encode_call("denylist(address)", ALICE.address),
            "Denylistable: account is on denylist",
        ),
        ("token_minter", encode_call("pause()"), "Pausable: paused"),
        ("message_transmitter", encode_call("pause()"), "Pausable: paused"),
        ("token_messenger", encode_call("setMinFee(uint256)", 10), "Insufficient max fee"),
        (
            "token_minter",
            encode_call(
                "setMaxBurnAmountPerMessage(address,uint256)", expected_addresses().usdc, 9
            ),
            "Burn amount exceeds per tx limit",
        ),
        (
            "usdc",
            encode_call("blacklist(address)", ALICE.address),
            "Blacklistable: account is blacklisted",
        ),
    ],
)
def test_an_owners_measure_stops_a_burn(devnet: EvmDevnet, contract, call, text):
    devnet.send(deployer(), getattr(devnet.addresses, contract), call)
    with pytest.raises(Reverted) as refused:
        devnet.deposit_for_burn(ALICE, amount=ONE, mint_recipient=RECIPIENT)
    assert refused.value.name == text


def test_owners_measures_are_the_owners_alone(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="caller is not the owner"):
        devnet.send(ALICE, devnet.addresses.token_minter, encode_call("pause()"))


# CCTP, attestation and inbound


def test_attesting_fills_exactly_the_four_blank_ranges():
    for genuine in GENUINE["attested_messages"]:
        final = bytes.fromhex(genuine["message"][2:])
        source = bytearray(final)
        for blank in SOURCE_BLANKS:
            source[blank] = bytes(blank.stop - blank.start)
        message, _ = Attesters().attest(
            bytes(source),
            nonce=final[12:44],
            finality_executed=int.from_bytes(final[144:148], "big"),
            fee_executed=int.from_bytes(final[312:344], "big"),
            expiration=int.from_bytes(final[344:376], "big"),
        )
        assert message == final, genuine["id"]


def test_a_genuine_message_is_made_of_the_same_fields():
    [genuine] = [each for each in GENUINE["attested_messages"] if "attestation" in each]
    final = bytes.fromhex(genuine["message"][2:])
    message = BurnMessage(
        source_domain=6,
        destination_domain=27,
        sender=final[44:76],
        recipient=REMOTES.token_messenger_minter,
        burn_token=final[152:184],
        mint_recipient=final[184:216],
        amount=2 * ONE,
        message_sender=final[248:280],
        destination_caller=final[108:140],
        max_fee=261,
        min_finality=CONFIRMED,
        hook_data=final[376:],
    )
    nonce = final[12:44]
    attested_bytes, _ = Attesters().attest(
        message.encode(),
        nonce=nonce,
        finality_executed=CONFIRMED,
        fee_executed=260,
        expiration=int.from_bytes(final[344:376], "big"),
    )
    assert attested_bytes == final


def test_attestations_have_the_shape_of_a_genuine_one():
    [genuine] = [each for each in GENUINE["attested_messages"] if "attestation" in each]
    real = bytes.fromhex(genuine["attestation"][2:])
    real_signers = signers(bytes.fromhex(genuine["message"][2:]), real)
    assert real_signers == [
        "0x49fd63506e0d88e07511ad95bae7b2a31af98b28",
        "0x8867a67cda4bc788c6e819baeaec60b867865287",
    ]
    message, ours = attested(inbound_burn())
    assert len(ours) == len(real) == 130
    assert {ours[64], ours[129], real[64], real[129]} <= {27, 28}
    assert tuple(signers(message, ours)) == Attesters().addresses
    assert list(Attesters().addresses) == sorted(Attesters().addresses)


def test_a_nonce_depends_on_the_message_and_the_counter():
    source = inbound_burn()
    assert message_nonce(source, 0) == message_nonce(source, 0)
    assert message_nonce(source, 0) != message_nonce(source, 1)
    assert message_nonce(source, 0) != message_nonce(inbound_burn(amount=1), 0)


@pytest.mark.parametrize(
    ("source", "nonce", "text"),
    [
        (inbound_burn()[:375], bytes(32), "376 bytes"),
        (attested(inbound_burn())[0], bytes(32), "attested already"),
        (inbound_burn(), bytes(31), "32 bytes"),
    ],
    ids=["too short", "attested already", "short nonce"],
)
def test_only_a_whole_unattested_burn_is_attested(source, nonce, text):
    with pytest.raises(ValueError, match=text):
        Attesters().attest(source, nonce=nonce, finality_executed=FINALIZED)


def test_a_burn_of_this_chain_can_be_attested(devnet: EvmDevnet):
    receipt = devnet.deposit_for_burn(ALICE, amount=3 * ONE, mint_recipient=RECIPIENT, max_fee=9)
    [source] = devnet.sent_messages(receipt)
    message, attestation = attested(source, CONFIRMED, fee_executed=8, expiration=1234)
    assert tuple(signers(message, attestation)) == Attesters().addresses
    assert message[312:376] == (8).to_bytes(32, "big") + (1234).to_bytes(32, "big")


def test_a_standard_mint_logs_in_the_order_of_the_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    message, attestation = attested(inbound_burn())
    receipt = devnet.receive_message(RELAYER, message, attestation)
    genuine = [log["topics"][0][2:] for log in GENUINE["mint_logs"]]
    assert [log.topics[0].hex() for log in receipt.logs] == genuine
    mint, transfer, withdraw, received = receipt.logs
    assert mint.topics[1:] == (address_word(at.token_minter), address_word(BOB.address))
    assert transfer.topics[1:] == (ZERO_WORD, address_word(BOB.address))
    assert withdraw.topics[1:] == (address_word(BOB.address), address_word(at.usdc))
    assert decode(["uint256", "uint256"], withdraw.data) == (5 * ONE, 0)
    assert received.topics[1:] == (
        address_word(RELAYER.address),
        message[12:44],
        FINALIZED.to_bytes(32, "big"),
    )
    assert decode(["uint32", "bytes32", "bytes"], received.data) == (
        27,
        REMOTES.token_messenger_minter,
        message[148:],
    )
    assert [len(log.data) for log in receipt.logs] == [
        # The genuine body has a hook of 96 bytes, this one none.
        len(bytes.fromhex(log["data"][2:])) - (96 if log is GENUINE["mint_logs"][3] else 0)
        for log in GENUINE["mint_logs"]
    ]
    assert devnet.balance_of(at.usdc, BOB.address) == 5 * ONE
    used = devnet.call(
        at.message_transmitter, "usedNonces(bytes32)", message[12:44], returns="(uint256)"
    )
    assert used == (1,)


def test_a_fast_mint_withholds_its_fee(devnet: EvmDevnet):
    at = devnet.addresses
    source = inbound_burn(max_fee=700, min_finality=CONFIRMED)
    message, attestation = attested(
        source, CONFIRMED, fee_executed=650, expiration=devnet.block_number() + 100
    )
    receipt = devnet.receive_message(RELAYER, message, attestation)
    assert names(receipt) == [
        "Mint",
        "Transfer",
        "Mint",
        "Transfer",
        "MintAndWithdraw",
        "MessageReceived",
    ]
    withdraw = the_log(receipt, "MintAndWithdraw")
    assert decode(["uint256", "uint256"], withdraw.data) == (5 * ONE - 650, 650)
    assert devnet.balance_of(at.usdc, BOB.address) == 5 * ONE - 650
    assert devnet.balance_of(at.usdc, fee_recipient().address) == 650


def test_a_nonce_is_used_once(devnet: EvmDevnet):
    message, attestation = attested(inbound_burn())
    devnet.receive_message(RELAYER, message, attestation)
    with pytest.raises(Reverted, match="Nonce already used"):
        devnet.receive_message(RELAYER, message, attestation)


def test_only_the_destination_caller_may_deliver(devnet: EvmDevnet):
    message, attestation = attested(inbound_burn(destination_caller=address_word(RELAYER.address)))
    with pytest.raises(Reverted, match="Invalid caller for message"):
        devnet.receive_message(ALICE, message, attestation)
    assert devnet.receive_message(RELAYER, message, attestation).succeeded


def test_an_expired_message_must_be_attested_again(devnet: EvmDevnet):
    source = inbound_burn(max_fee=10, min_finality=CONFIRMED)
    now = devnet.block_number()
    message, attestation = attested(source, CONFIRMED, fee_executed=1, expiration=now + 2)
    devnet.mine(3)
    with pytest.raises(Reverted, match="Message expired and must be re-signed"):
        devnet.receive_message(RELAYER, message, attestation)
    message, attestation = attested(source, FINALIZED, fee_executed=1)
    assert devnet.receive_message(RELAYER, message, attestation).succeeded


def swapped(attestation: bytes) -> bytes:
    return attestation[65:] + attestation[:65]


def doubled(attestation: bytes) -> bytes:
    return attestation[:65] * 2


def shortened(attestation: bytes) -> bytes:
    return attestation[:-1]


def high_s(attestation: bytes) -> bytes:
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    s = order - int.from_bytes(attestation[32:64], "big")
    v = 55 - attestation[64]
    return attestation[:32] + s.to_bytes(32, "big") + bytes([v]) + attestation[65:]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (swapped, "Invalid signature order or dupe"),
        (doubled, "Invalid signature order or dupe"),
        (shortened, "Invalid attestation length"),
        (high_s, "ECDSA: invalid signature 's' value"),
    ],
)
def test_a_damaged_attestation_is_refused(devnet: EvmDevnet, damage, text):
    message, attestation = attested(inbound_burn())
    with pytest.raises(Reverted) as refused:
        devnet.receive_message(RELAYER, message, damage(attestation))
    assert refused.value.name == text


def test_a_signature_of_a_stranger_is_refused(devnet: EvmDevnet):
    message, _ = attested(inbound_burn())
    strangers = Attesters(tuple(sorted((ALICE, BOB), key=lambda each: int(each.address, 16))))
    with pytest.raises(Reverted, match="Invalid signature: not attester"):
        devnet.receive_message(RELAYER, message, strangers.sign(message))


@pytest.mark.parametrize(
    ("change", "finality", "values", "text"),
    [
        ({"destination_domain": 6}, FINALIZED, {}, "Invalid destination domain"),
        ({"source_domain": 6}, FINALIZED, {}, "Remote TokenMessenger unsupported"),
        ({"sender": RECIPIENT}, FINALIZED, {}, "Remote TokenMessenger unsupported"),
        ({"burn_token": RECIPIENT}, FINALIZED, {}, "Mint token not supported"),
        ({}, 499, {}, "Unsupported finality threshold"),
        ({"max_fee": 5}, CONFIRMED, {"fee_executed": 6}, "Fee exceeds max fee"),
        (
            {"amount": 5, "max_fee": 9},
            CONFIRMED,
            {"fee_executed": 5},
            "Fee equals or exceeds amount",
        ),
    ],
)
def test_a_wrong_message_is_refused_with_the_real_text(
    devnet: EvmDevnet, change, finality, values, text
):
    message, attestation = attested(inbound_burn(**change), finality, **values)
    with pytest.raises(Reverted) as refused:
        devnet.receive_message(RELAYER, message, attestation)
    assert refused.value.name == text


@pytest.mark.parametrize(
    ("offset", "text"),
    [(3, "Invalid message version"), (151, "Invalid message body version")],
)
def test_another_version_is_refused(devnet: EvmDevnet, offset, text):
    message, _ = attested(inbound_burn())
    other = message[:offset] + b"\2" + message[offset + 1 :]
    with pytest.raises(Reverted, match=text):
        devnet.receive_message(RELAYER, other, Attesters().sign(other))


def test_nobody_but_the_transmitter_makes_the_messenger_mint(devnet: EvmDevnet):
    call = encode_call(
        "handleReceiveFinalizedMessage(uint32,bytes32,uint32,bytes)",
        27,
        REMOTES.token_messenger_minter,
        FINALIZED,
        inbound_burn()[148:],
    )
    with pytest.raises(Reverted, match="Invalid message transmitter"):
        devnet.send(ALICE, devnet.addresses.token_messenger, call)


# OFT, outbound


def test_a_send_logs_in_the_order_of_the_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    fee = devnet.quote_send(to=RECIPIENT, amount=4 * ONE)
    receipt = devnet.oft_send(ALICE, to=RECIPIENT, amount=4 * ONE, native_fee=fee)
    assert names(receipt) == ["Transfer", "PacketSent", "OFTSent"]
    assert [log.address for log in receipt.logs] == [at.usdt0, at.endpoint, at.oft]
    burned, packet_sent, sent = receipt.logs
    assert burned.topics[1:] == (address_word(ALICE.address), ZERO_WORD)
    expected = Packet(
        nonce=1,
        src_eid=30101,
        sender=address_word(at.oft),
        dst_eid=30600,
        receiver=REMOTES.oft,
        message=oft_message(RECIPIENT, 4 * ONE),
    )
    assert decode(["bytes", "bytes", "address"], packet_sent.data) == (
        expected.encode(),
        ENFORCED_OPTIONS,
        at.endpoint,
    )
    assert devnet.sent_packets(receipt) == (expected.encode(),)
    assert sent.topics[1:] == (expected.guid, address_word(ALICE.address))
    assert decode(["uint32", "uint256", "uint256"], sent.data) == (30600, 4 * ONE, 4 * ONE)


def test_packet_bytes_and_guid_are_those_of_genuine_packets():
    data = bytes.fromhex(GENUINE["packet_sent"]["data"][2:])
    encoded, _, _ = decode(["bytes", "bytes", "address"], data)
    packet = Packet.decode(encoded)
    assert (packet.nonce, packet.src_eid, packet.dst_eid) == (3244, 30327, 30111)
    header = bytes.fromhex(GENUINE["packet_header"]["header"][2:])
    towards_stellar = Packet(32, 30101, header[13:45], 30600, header[49:81], b"")
    assert towards_stellar.guid.hex() == GENUINE["packet_header"]["guid"][2:]
    with pytest.raises(ValueError, match="guid"):
        Packet.decode(encoded[:81] + bytes(32) + encoded[113:])


def test_nonces_of_a_path_count_from_one(devnet: EvmDevnet):
    at = devnet.addresses
    path = (at.oft, STELLAR_EID, REMOTES.oft)
    [predicted] = devnet.call(
        at.endpoint, "nextGuid(address,uint32,bytes32)", *path, returns="(bytes32)"
    )
    receipts = [devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE) for _ in range(2)]
    packets = [Packet.decode(devnet.sent_packets(each)[0]) for each in receipts]
    assert [packet.nonce for packet in packets] == [1, 2]
    assert packets[0].guid == predicted


def test_the_excess_of_a_fee_is_refunded(devnet: EvmDevnet):
    def wei(address: str) -> int:
        return int(devnet.rpc("eth_getBalance", address, "latest"), 16)

    refund_to = "0x00000000000000000000000000000000000000aa"
    endpoint_before = wei(devnet.addresses.endpoint)
    devnet.oft_send(
        ALICE, to=RECIPIENT, amount=ONE, native_fee=NATIVE_FEE + 5, refund_address=refund_to
    )
    assert wei(refund_to) == 5
    assert wei(devnet.addresses.endpoint) - endpoint_before == NATIVE_FEE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"value": NATIVE_FEE - 1}, ("NotEnoughNative", (NATIVE_FEE - 1,))),
        ({"value": NATIVE_FEE + 1}, ("NotEnoughNative", (NATIVE_FEE + 1,))),
        (
            {"native_fee": NATIVE_FEE - 1},
            ("LZ_InsufficientFee", (NATIVE_FEE, NATIVE_FEE - 1, 0, 0)),
        ),
        ({"dst_eid": 30184}, ("NoPeer", (30184,))),
        ({"min_amount": ONE + 1}, ("SlippageExceeded", (ONE, ONE + 1))),
        ({"extra_options": b"\0\1\2"}, ("InvalidOptions", (b"\0\1\2",))),
        ({"amount": 2**64}, ("AmountSDOverflowed", (2**64,))),
        ({"amount": 1001 * ONE}, ("ERC20: burn amount exceeds balance", ())),
    ],
)
def test_a_wrong_send_is_refused_with_the_real_error(devnet: EvmDevnet, change, error):
    send = {"to": RECIPIENT, "amount": ONE} | change
    with pytest.raises(Reverted) as refused:
        devnet.oft_send(ALICE, **send)
    assert (refused.value.name, refused.value.arguments) == error


def test_extra_options_follow_the_enforced_ones(devnet: EvmDevnet):
    extra = bytes.fromhex("0003010011010000000000000000000000000000c350")
    receipt = devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE, extra_options=extra)
    _, options, _ = decode(["bytes", "bytes", "address"], the_log(receipt, "PacketSent").data)
    assert options == ENFORCED_OPTIONS + extra[2:]


def test_a_send_without_any_options_is_refused(devnet: EvmDevnet):
    call = encode_call("setPeer(uint32,bytes32)", 30110, RECIPIENT)
    devnet.send(deployer(), devnet.addresses.oft, call)
    with pytest.raises(Reverted, match="LZ_ULN_InvalidWorkerOptions"):
        devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE, dst_eid=30110)


def test_a_quote_says_what_arrives(devnet: EvmDevnet):
    limit, fees, receipt = devnet.call(
        devnet.addresses.oft,
        f"quoteOFT({SEND_PARAM})",
        (STELLAR_EID, RECIPIENT, 5, 5, b"", b"", b""),
        returns="((uint256,uint256),(int256,string)[],(uint256,uint256))",
    )
    assert (limit, fees, receipt) == ((0, 1000 * ONE), (), (5, 5))


# OFT, inbound


def test_a_delivery_logs_in_the_order_of_the_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    packet = inbound_packet()
    verified = devnet.lz_verify(packet.encode())
    assert names(verified) == ["PacketVerified"]
    assert decode(["(uint32,bytes32,uint64)", "address", "bytes32"], verified.logs[0].data) == (
        packet.origin,
        at.oft,
        packet.payload_hash,
    )
    receipt = devnet.lz_receive(RELAYER, packet.encode())
    assert names(receipt) == ["Transfer", "OFTReceived", "PacketDelivered"]
    assert [log.address for log in receipt.logs] == [at.usdt0, at.oft, at.endpoint]
    minted, received, delivered = receipt.logs
    assert minted.topics[1:] == (ZERO_WORD, address_word(BOB.address))
    assert received.topics[1:] == (packet.guid, address_word(BOB.address))
    assert decode(["uint32", "uint256"], received.data) == (30600, 7 * ONE)
    assert decode(["(uint32,bytes32,uint64)", "address"], delivered.data) == (packet.origin, at.oft)
    assert devnet.balance_of(at.usdt0, BOB.address) == 7 * ONE


def test_an_unverified_packet_is_not_delivered(devnet: EvmDevnet):
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, inbound_packet().encode())
    assert (refused.value.name, refused.value.arguments) == ("LZ_InvalidNonce", (1,))


def test_a_packet_is_delivered_once(devnet: EvmDevnet):
    packet = inbound_packet()
    devnet.lz_verify_and_receive(packet.encode())
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, packet.encode())
    assert refused.value.name == "LZ_PayloadHashNotFound"
    assert refused.value.arguments == (ZERO_WORD, packet.payload_hash)
    with pytest.raises(Reverted, match="LZ_PathNotVerifiable"):
        devnet.lz_verify(packet.encode())


def test_another_message_than_the_verified_one_is_refused(devnet: EvmDevnet):
    devnet.lz_verify(inbound_packet().encode())
    with pytest.raises(Reverted, match="LZ_PayloadHashNotFound"):
        devnet.lz_receive(RELAYER, inbound_packet(amount=8 * ONE).encode())


def test_verified_packets_are_delivered_in_any_order_without_gaps(devnet: EvmDevnet):
    at = devnet.addresses
    path = (at.oft, STELLAR_EID, REMOTES.oft)
    first, second, third = (inbound_packet(nonce=n).encode() for n in (1, 2, 3))
    devnet.lz_verify(third)
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, third)
    assert refused.value.arguments == (1,)
    devnet.lz_verify(first)
    devnet.lz_verify(second)
    inbound = devnet.call(
        at.endpoint, "inboundNonce(address,uint32,bytes32)", *path, returns="(uint64)"
    )
    assert inbound == (3,)
    for packet in (third, first, second):
        assert devnet.lz_receive(RELAYER, packet).succeeded
    lazy = devnet.call(
        at.endpoint, "lazyInboundNonce(address,uint32,bytes32)", *path, returns="(uint64)"
    )
    assert lazy == (3,)


def test_a_failed_delivery_can_be_tried_again(devnet: EvmDevnet):
    at = devnet.addresses
    packet = inbound_packet()
    devnet.lz_verify(packet.encode())
    revoke = encode_call("setMinter(address,bool)", at.oft, False)
    devnet.send(deployer(), at.usdt0, revoke)
    with pytest.raises(Reverted, match="caller is not a minter"):
        devnet.lz_receive(RELAYER, packet.encode())
    devnet.send(deployer(), at.usdt0, encode_call("setMinter(address,bool)", at.oft, True))
    assert devnet.lz_receive(RELAYER, packet.encode()).succeeded


def test_only_the_verifier_verifies(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "verify((uint32,bytes32,uint64),address,bytes32)",
        packet.origin,
        devnet.addresses.oft,
        packet.payload_hash,
    )
    with pytest.raises(Reverted, match="LZ_InvalidReceiveLibrary"):
        devnet.send(ALICE, devnet.addresses.endpoint, call)
    assert devnet.send(packet_verifier(), devnet.addresses.endpoint, call).succeeded


def test_a_packet_from_no_peer_opens_no_path(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="LZ_PathNotInitializable"):
        devnet.lz_verify(inbound_packet(sender=RECIPIENT).encode())


def test_nobody_but_the_endpoint_makes_the_oft_mint(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "lzReceive((uint32,bytes32,uint64),bytes32,bytes,address,bytes)",
        packet.origin,
        packet.guid,
        packet.message,
        ALICE.address,
        b"",
    )
    with pytest.raises(Reverted, match="OnlyEndpoint"):
        devnet.send(ALICE, devnet.addresses.oft, call)


def test_an_alert_says_who_failed_to_deliver_what(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "lzReceiveAlert((uint32,bytes32,uint64),address,bytes32,uint256,uint256,bytes,bytes,bytes)",
        packet.origin,
        devnet.addresses.oft,
        packet.guid,
        500_000,
        0,
        packet.message,
        b"",
        b"reason",
    )
    receipt = devnet.send(RELAYER, devnet.addresses.endpoint, call)
    [alert] = receipt.logs
    assert NAMES[alert.topics[0].hex()] == "LzReceiveAlert"
    assert alert.topics[1:] == (
        address_word(devnet.addresses.oft),
        address_word(RELAYER.address),
    )
    values = ["(uint32,bytes32,uint64)", "bytes32", "uint256", "uint256", "bytes", "bytes", "bytes"]
    assert decode(values, alert.data) == (
        packet.origin,
        packet.guid,
        500_000,
        0,
        packet.message,
        b"",
        b"reason",
    )


# Tokens and blocks


def test_a_plain_transfer_moves_usdc(devnet: EvmDevnet):
    receipt = devnet.transfer(ALICE, devnet.addresses.usdc, BOB.address, 5)
    assert names(receipt) == ["Transfer"]
    assert devnet.balance_of(devnet.addresses.usdc, BOB.address) == 5
    with pytest.raises(Reverted) as refused:
        devnet.transfer(BOB, devnet.addresses.usdc, ALICE.address, 6)
    assert refused.value.name == "ERC20: transfer amount exceeds balance"


def test_only_minters_mint(devnet: EvmDevnet):
    mint = encode_call("mint(address,uint256)", ALICE.address, 1)
    for token in (devnet.addresses.usdc, devnet.addresses.usdt0):
        with pytest.raises(Reverted, match="caller is not a minter"):
            devnet.send(ALICE, token, mint)


def test_a_failing_transaction_can_be_put_into_a_block(devnet: EvmDevnet):
    call = encode_call("transfer(address,uint256)", ALICE.address, 1)
    receipt = devnet.send(BOB, devnet.addresses.usdc, call, gas=100_000)
    assert not receipt.succeeded
    assert receipt.logs == ()


def test_several_transactions_share_a_block_without_automine(devnet: EvmDevnet):
    devnet.set_automine(False)
    transfer = encode_call("transfer(address,uint256)", BOB.address, 1)
    hashes = [devnet.submit(ALICE, devnet.addresses.usdc, transfer) for _ in range(3)]
    devnet.mine()
    receipts = [devnet.wait(each) for each in hashes]
    devnet.set_automine(True)
    assert len({receipt.block_hash for receipt in receipts}) == 1
    assert [receipt.logs[0].index for receipt in receipts] == [0, 1, 2]


def test_the_next_blocks_time_can_be_set(devnet: EvmDevnet):
    later = int(devnet.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16) + 1000
    devnet.set_next_block_timestamp(later)
    devnet.mine()
    block = devnet.rpc("eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == later


def test_a_reorg_replaces_every_block_and_drops_their_transactions(tmp_path: Path):
    with (
        AnvilProcess(log_file=tmp_path / "anvil.log") as anvil,
        deploy(anvil.rpc_url, REMOTES) as devnet,
    ):
        usdc = devnet.addresses.usdc
        kept = devnet.faucet_usdc(ALICE.address, 1)
        dropped = devnet.faucet_usdc(ALICE.address, 2)
        again = devnet.transfer(ALICE, usdc, BOB.address, 1)
        devnet.mine(2)
        head = devnet.block_number()
        before = [devnet.block_hash(n) for n in range(kept.block_number, head + 1)]

        fork = devnet.reorg(4, remine=[again.transaction_hash])

        after = [devnet.block_hash(n) for n in range(kept.block_number, head + 1)]
        assert fork == kept.block_number
        assert devnet.block_number() == head
        assert before[0] == after[0]
        assert not set(before[1:]) & set(after[1:])
        assert devnet.rpc("eth_getTransactionReceipt", dropped.transaction_hash) is None
        remined = devnet.wait(again.transaction_hash)
        assert (remined.block_number, remined.block_hash) == (head, after[-1])
        assert devnet.balance_of(usdc, ALICE.address) == 0
        assert devnet.balance_of(usdc, BOB.address) == 1


def test_a_second_reorg_of_the_same_depth_changes_the_blocks_again(devnet: EvmDevnet):
    devnet.mine(3)
    head = devnet.block_number()
    seen = [devnet.block_hash(head)]
    for _ in range(2):
        devnet.reorg(2)
        seen.append(devnet.block_hash(head))
    assert len(set(seen)) == 3


# The process


def test_a_chain_survives_a_restart_of_its_node(tmp_path: Path):
    anvil = AnvilProcess(log_file=tmp_path / "anvil.log", state_file=tmp_path / "chain.json")
    with anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        devnet.faucet_usdc(ALICE.address, 9)
        height, head = devnet.block_number(), devnet.block_hash(devnet.block_number())
    with anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        assert devnet.block_number() == height
        assert devnet.block_hash(height) == head
        assert devnet.balance_of(devnet.addresses.usdc, ALICE.address) == 9
        filters = {"fromBlock": hex(height), "toBlock": hex(height)}
        assert len(devnet.rpc("eth_getLogs", filters)) == 2


def test_a_node_on_a_beat_takes_the_whole_deployment(tmp_path: Path):
    log_file = tmp_path / "anvil.log"
    with (
        AnvilProcess(log_file=log_file, block_time=0.25, chain_id=1337) as anvil,
        deploy(anvil.rpc_url, REMOTES) as devnet,
    ):
        assert devnet.rpc.chain_id == 1337
        assert devnet.faucet_usdc(ALICE.address, 9).succeeded


def test_a_taken_port_is_an_error(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "first.log") as first:
        second = AnvilProcess(log_file=tmp_path / "second.log", port=first.port)
        with pytest.raises(AnvilFailed, match="ended with"):
            second.start()
        second.stop()
