"""Compiled Solidity: artifacts are current; topics, selectors and errors are the real ones."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from eth_utils.crypto import keccak

from devnet.evm_node import ARTIFACTS, artifact, event_topic, signature_of
from tests.devnet.evm.stand import TOPICS

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


def abi_entries(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(ARTIFACTS.glob("*.json")):
        for entry in artifact(path.stem).abi:
            if entry["type"] == kind:
                yield path.stem, entry


def test_artifacts_exist_and_match_their_sources():
    folder = ARTIFACTS.parent
    now = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.sol")
    }
    compiled: dict[str, str] = {}
    for path in ARTIFACTS.glob("*.json"):
        compiled |= json.loads(path.read_text())["sources"]
    assert compiled == now


def test_artifacts_have_sorted_keys_and_trailing_newline():
    for path in ARTIFACTS.glob("*.json"):
        text = path.read_text()
        canonical = json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False)
        # JavaScript breaks no line inside an empty list or object; neither does Python.
        assert text == canonical + "\n", path.name


def test_event_topics_match_the_real_contracts():
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


def test_indexed_event_fields_match_the_real_contracts():
    for _, entry in abi_entries("event"):
        if entry["name"] in INDEXED:
            indexed = {each["name"] for each in entry["inputs"] if each["indexed"]}
            assert indexed == INDEXED[entry["name"]], entry["name"]


def test_function_selectors_match_the_real_contracts():
    declared = {
        (contract, keccak(text=signature_of(entry))[:4].hex())
        for contract, entry in abi_entries("function")
    }
    assert declared >= SELECTORS


def test_error_selectors_match_the_real_contracts():
    declared = {
        entry["name"]: keccak(text=signature_of(entry))[:4].hex()
        for _, entry in abi_entries("error")
    }
    assert declared | ERRORS == declared
