"""A planted fault of a contract gives its finding and no other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from eth_utils.crypto import keccak

from devnet.evm import STELLAR_EID, deployer
from devnet.evm_node import encode_call
from devnet.stellar.accounts import ADMIN, keypair
from devnet.stellar.genesis import Genesis
from devnet.stellar.node import Node
from devnet.stellar.registry import Remotes
from devnet.world import remotes_of_stellar
from indexer.doctor.checks import CheckResult
from tests.devnet.stellar.chain import Chain, serving
from tests.indexer.doctor.conftest import EVM, STELLAR, Surroundings, found
from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead, refusal
from warehouse_schema.identifiers import StellarAddress

SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"
"""The implementation slot as EIP-1967 writes it."""


class OtherView(ReplyFault):
    """Answers a view of a contract with another word; without one, it reverts."""

    def __init__(self, contract: str | None, signature: str, word: int | None) -> None:
        super().__init__()
        self.contract, self.word = contract, word
        self.selector = "0x" + keccak(text=signature)[:4].hex()

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_call":
            return reply
        asked = call["params"][0]
        if asked["to"] != self.contract or not asked["data"].startswith(self.selector):
            return reply
        if self.word is None:
            return refusal(reply, "execution reverted", 3)
        return instead(reply, f"0x{self.word:064x}")


class OtherState(ReplyFault):
    """Answers a method about an address, and a slot of it, with something else."""

    def __init__(self, method: str, address: str | None, answer: str, slot: str = "") -> None:
        super().__init__()
        self.method, self.address, self.answer, self.slot = method, address, answer, slot

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        params = call["params"]
        if call["method"] != self.method or params[0] != self.address:
            return reply
        return instead(reply, self.answer) if self.slot in ("", params[1]) else reply


@pytest.fixture
def undone(around: Surroundings) -> Iterator[Surroundings]:
    """What a test changes on the EVM chain is taken back."""
    snapshot = around.evm.rpc("evm_snapshot")
    yield around
    around.evm.rpc("evm_revert", snapshot)


def evm_subject(around: Surroundings, name: str) -> str:
    return f"{EVM} {name} {getattr(around.network.evm[0], name)}"


def stellar_subject(around: Surroundings, name: str) -> str:
    return f"{STELLAR} {name} {getattr(around.network.stellar, name)}"


def owner_call(around: Surroundings, to: str | None, signature: str, *arguments: Any) -> None:
    assert to is not None
    receipt = around.evm.send(deployer(), to, encode_call(signature, *arguments))
    assert receipt.succeeded


# EVM


def test_missing_contract_is_found_and_asked_nothing_else(around: Surroundings) -> None:
    endpoint = around.network.evm[0].lz_endpoint
    around.evm_node.inject(OtherState("eth_getCode", endpoint, "0x"))
    results = around.findings()
    assert found(results) == [("contract.code", evm_subject(around, "lz_endpoint"))]


def test_implementation_without_code_is_found(around: Surroundings) -> None:
    word = "0x" + f"{0x5E5E5E:064x}"
    messenger = around.network.evm[0].cctp_token_messenger
    around.evm_node.inject(OtherState("eth_getStorageAt", messenger, word, SLOT))
    [finding] = around.findings()
    expected = ("contract.implementation", evm_subject(around, "cctp_token_messenger"))
    assert (finding.check, finding.subject) == expected


def test_implementation_with_code_is_shown(around: Surroundings) -> None:
    usdc, oft = around.network.evm[0].usdc, around.network.evm[0].oft
    assert oft is not None
    around.evm_node.inject(OtherState("eth_getStorageAt", usdc, "0x" + oft[2:].zfill(64), SLOT))
    assert around.findings() == []


def test_other_decimals_are_found(around: Surroundings) -> None:
    around.evm_node.inject(OtherView(around.network.evm[0].usdt0, "decimals()", 18))
    [finding] = around.findings()
    assert (finding.check, finding.subject) == ("contract.decimals", evm_subject(around, "usdt0"))
    assert finding.problem == "decimals is 18, not 6"


@pytest.mark.parametrize("name", ["usdc", "cctp_message_transmitter"])
def test_paused_contract_is_found(undone: Surroundings, name: str) -> None:
    owner_call(undone, getattr(undone.network.evm[0], name), "pause()")
    assert found(undone.findings()) == [("contract.paused", evm_subject(undone, name))]


def test_paused_minter_is_found(undone: Surroundings) -> None:
    minter = undone.evm.addresses.token_minter
    owner_call(undone, minter, "pause()")
    subject = f"{EVM} cctp_token_minter {minter}"
    assert found(undone.findings()) == [("contract.paused", subject)]


def test_unlinked_stellar_messenger_is_found(undone: Surroundings) -> None:
    messenger = undone.network.evm[0].cctp_token_messenger
    owner_call(undone, messenger, "removeRemoteTokenMessenger(uint32)", 27)
    [finding] = undone.findings()
    expected = ("contract.cctp_links", evm_subject(undone, "cctp_token_messenger"))
    assert (finding.check, finding.subject) == expected
    assert finding.problem.startswith("Stellar's messenger is 0x0000")


@pytest.mark.parametrize(
    ("signature", "account"),
    [
        ("enableAttester(address)", "0x" + "5e" * 20),
        ("disableAttester(address)", "0x21e8fe6b41f103defec4254fbe4528c09e30609b"),
    ],
    ids=["one more", "one fewer"],
)
def test_other_attesters_are_found(undone: Surroundings, signature: str, account: str) -> None:
    transmitter = undone.network.evm[0].cctp_message_transmitter
    owner_call(undone, transmitter, signature, account)
    expected = ("contract.attesters", evm_subject(undone, "cctp_message_transmitter"))
    assert found(undone.findings()) == [expected]


def test_other_signature_threshold_is_found_on_both_chains(around: Surroundings) -> None:
    results = around.findings(around.settings(replace(around.network, attestation_threshold=1)))
    assert found(results) == [
        ("contract.attesters", stellar_subject(around, "cctp_message_transmitter")),
        ("contract.attesters", evm_subject(around, "cctp_message_transmitter")),
    ]


def test_network_file_without_attesters_shows_the_chains_own(around: Surroundings) -> None:
    network = replace(around.network, attesters=(), attestation_threshold=0)
    results = around.findings(around.settings(network))
    assert {result.check for result in results} == {"contract.attesters"}
    assert "the chain has 2 of 0x21e8fe6b41f103defec4254fbe4528c09e30609b" in results[0].problem


def test_low_burn_limit_is_found(undone: Surroundings) -> None:
    minter, usdc = undone.evm.addresses.token_minter, undone.network.evm[0].usdc
    owner_call(undone, minter, "setMaxBurnAmountPerMessage(address,uint256)", usdc, 19_999_999)
    subject = f"{EVM} cctp_token_minter {minter}"
    assert found(undone.findings()) == [("contract.burn_limit", subject)]


def test_higher_least_fee_than_quoted_is_found(undone: Surroundings) -> None:
    messenger = undone.network.evm[0].cctp_token_messenger
    # Circle's stand-in names 1.3 basis points.
    owner_call(undone, messenger, "setMinFee(uint256)", 1_300)
    assert undone.findings() == []
    owner_call(undone, messenger, "setMinFee(uint256)", 1_400)
    [finding] = undone.findings()
    expected = ("contract.min_fee", evm_subject(undone, "cctp_token_messenger"))
    assert (finding.check, finding.subject) == expected
    assert finding.problem == "it takes 1.4 basis points, quotes have 1.3"


def test_contract_without_a_least_fee_takes_none(around: Surroundings) -> None:
    messenger = around.network.evm[0].cctp_token_messenger
    around.evm_node.inject(OtherView(messenger, "minFee()", None))
    assert around.findings() == []


def test_other_peer_on_evm_is_found(undone: Surroundings) -> None:
    oft = undone.network.evm[0].oft
    owner_call(undone, oft, "setPeer(uint32,bytes32)", STELLAR_EID, b"\x5e" * 32)
    assert found(undone.findings()) == [("contract.oft_peer", evm_subject(undone, "oft"))]


def test_other_shared_decimals_are_found(around: Surroundings) -> None:
    around.evm_node.inject(OtherView(around.network.evm[0].oft, "sharedDecimals()", 8))
    assert found(around.findings()) == [("contract.oft", evm_subject(around, "oft"))]


def test_oft_whose_quote_reverts_is_found(around: Surroundings) -> None:
    signature = "quoteOFT((uint32,bytes32,uint256,uint256,bytes,bytes,bytes))"
    around.evm_node.inject(OtherView(around.network.evm[0].oft, signature, None))
    assert found(around.findings()) == [("contract.oft_limit", evm_subject(around, "oft"))]


# Stellar


@contextmanager
def other_stellar(around: Surroundings, remotes: Remotes) -> Iterator[tuple[Chain, str]]:
    """A Stellar chain whose contracts trust other EVM contracts, and its URL."""
    chain = Chain(node=Node(Genesis(remotes)))
    chain.node.close_ledger()
    with serving(chain) as url:
        yield chain, url


@pytest.mark.parametrize(
    ("change", "check", "contract"),
    [
        (
            lambda it: replace(it, attesters=(it.attesters[0], b"\x5e" * 20)),
            "contract.attesters",
            "cctp_message_transmitter",
        ),
        (
            lambda it: replace(it, token_messenger=b"\x5e" * 20),
            "contract.cctp_links",
            "cctp_token_messenger",
        ),
        (lambda it: replace(it, usdc=b"\x5e" * 20), "contract.cctp_links", "cctp_token_messenger"),
        (lambda it: replace(it, oft=b"\x5e" * 20), "contract.oft_peer", "oft"),
    ],
    ids=["attester", "messenger", "token", "peer"],
)
def test_other_evm_side_on_stellar_is_found(
    around: Surroundings, change: Callable[[Remotes], Remotes], check: str, contract: str
) -> None:
    with other_stellar(around, change(remotes_of_stellar())) as (_, url):
        [finding] = around.findings(around.settings(stellar=[url]))
    assert finding.check == check
    assert finding.subject.startswith(stellar_subject(around, contract))


def test_paused_messenger_on_stellar_is_found(around: Surroundings) -> None:
    with other_stellar(around, remotes_of_stellar()) as (chain, url):
        assert around.findings(around.settings(stellar=[url])) == []
        messenger = around.network.stellar.cctp_token_messenger
        chain.invoke(keypair(ADMIN), messenger, "pause")
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("contract.paused", stellar_subject(around, "cctp_token_messenger"))]


def test_missing_stellar_contract_is_found(around: Surroundings) -> None:
    missing = "CCQLLRE5JBAWYCW3KTWOIWLMFDUOKROQVZNSALQMGOSXNW3ERUOWTZGK"
    stellar = replace(around.network.stellar, lz_endpoint=StellarAddress(missing))
    results = around.findings(around.settings(replace(around.network, stellar=stellar)))
    assert found(results) == [("contract.code", f"{STELLAR} lz_endpoint {missing}")]


def test_other_code_than_published_is_found(around: Surroundings) -> None:
    def with_hash(code_hash: str) -> list[CheckResult]:
        stellar = replace(around.network.stellar, code_hashes={"oft": code_hash})
        return around.findings(around.settings(replace(around.network, stellar=stellar)))

    [finding] = with_hash("5e" * 32)
    assert (finding.check, finding.subject) == (
        "contract.code_hash",
        stellar_subject(around, "oft"),
    )
    assert with_hash(finding.problem.split()[2].rstrip(",")) == []
