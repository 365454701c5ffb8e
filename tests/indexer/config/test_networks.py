"""Network files: the shipped ones load, errors name the key."""

from pathlib import Path
from typing import get_args

import pytest

from devnet.evm_messages import Attesters
from indexer.config.networks import EvmChain, load_network
from indexer.errors import NetworkFileError
from warehouse_schema.identifiers import ChainId
from warehouse_schema.location import NetworkName

MAINNET = Path(__file__).parents[3] / "indexer" / "config" / "networks" / "mainnet.toml"
EDITS = {
    "an address of a wrong checksum": (
        'usdc = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"',
        'usdc = "0xa0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"',
        r"mainnet\.toml: chains/eip155:1/contracts: usdc is wrong: .* EIP-55 checksum",
    ),
    "an address that is too short": (
        'usdc = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"',
        'usdc = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB4"',
        r"eip155:1/contracts: usdc is wrong: .* is not an EVM address",
    ),
    "a contract of a wrong checksum": (
        "CAE2G5Z77UP7GYPYGFOWFGW7C7J6I4YP2AFGSADRKQY62SYUFLPNFTXL",
        "CAE2G5Z77UP7GYPYGFOWFGW7C7J6I4YP2AFGSADRKQY62SYUFLPNFTXM",
        r"stellar:pubnet/contracts: cctp_token_messenger is wrong",
    ),
    "an issuer of a wrong checksum": (
        "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
        "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVM",
        r"stellar:pubnet/assets: usdc is wrong",
    ),
    "an unknown log proof": (
        'log_proof = "receipts"',
        'log_proof = "hope"',
        r"chains/eip155:1: log_proof is wrong: must be one of receipts, header, operators, none",
    ),
    "no confirmations": (
        'name = "Ethereum"\nconfirmations = 65\n',
        'name = "Ethereum"\n',
        r"chains/eip155:1: confirmations is missing",
    ),
    "confirmations of zero": (
        'name = "Ethereum"\nconfirmations = 65\n',
        'name = "Ethereum"\nconfirmations = 0\n',
        r"chains/eip155:1: confirmations must be at least 1",
    ),
    "a key nobody reads": (
        'name = "Ethereum"\n',
        'name = "Ethereum"\nconfirmation = 65\n',
        r"chains/eip155:1: confirmation is not a key",
    ),
    "an explorer that is a script": (
        'explorer_tx = "https://etherscan.io/tx/{tx}"',
        'explorer_tx = "javascript:alert(1)//{tx}"',
        r"chains/eip155:1: explorer_tx is wrong: .* is not an https URL",
    ),
    "half of CCTP": (
        'cctp_token_messenger = "0x28b5a0e9C621a5BadaA536219b3a228C8168cf5d"\n',
        "",
        r"chains/eip155:1/contracts: cctp_token_messenger is missing: CCTP needs all of",
    ),
    "two chains of one domain": (
        "cctp_domain = 1\n",
        "cctp_domain = 0\n",
        r"cctp_domain 0 is both Ethereum's and Avalanche's",
    ),
    "a chain id that is none": (
        '[chains."eip155:43114"]',
        '[chains."43114"]',
        r"id is wrong: '43114' is not a CAIP-2 chain id",
    ),
    "a number where a word belongs": (
        'name = "Ethereum"\n',
        "name = 7\n",
        r"chains/eip155:1: name has the wrong type: 7",
    ),
    "a service that is no URL": (
        'iris = "https://iris-api.circle.com"',
        'iris = "iris-api.circle.com"',
        r"mainnet\.toml: iris is wrong: .* is not an http\(s\) URL",
    ),
    "a threshold without attesters": (
        'iris = "https',
        'attestation_threshold = 2\niris = "https',
        r"attestation_threshold is 2; there are 0 attesters",
    ),
    "attesters without a threshold": (
        'iris = "https',
        f'attesters = ["0x{"11" * 20}"]\niris = "https',
        r"attestation_threshold is 0; there are 1 attesters",
    ),
    "more signatures than attesters": (
        'iris = "https',
        f'attesters = ["0x{"11" * 20}"]\nattestation_threshold = 2\niris = "https',
        r"attestation_threshold is 2; there are 1 attesters",
    ),
    "an attester named twice": (
        'iris = "https',
        f'attesters = ["0x{"11" * 20}", "0x{"11" * 20}"]\nattestation_threshold = 1\niris = "https',
        r"attesters names one twice",
    ),
    "no TOML": ("[chains.", "[chains", r"mainnet\.toml: "),
}


@pytest.mark.parametrize("name", get_args(NetworkName))
def test_every_network_file_loads(name: str) -> None:
    network = load_network(name)
    assert network.chains[0] is network.stellar
    assert all(chain.confirmations >= 1 for chain in network.evm)


@pytest.mark.parametrize(("name", "count"), [("mainnet", 0), ("testnet", 2), ("devnet", 2)])
def test_network_names_its_attesters_or_none(name: str, count: int) -> None:
    network = load_network(name)
    assert (len(network.attesters), network.attestation_threshold) == (count, count)


def test_devnet_trusts_its_own_attesters() -> None:
    assert load_network("devnet").attesters == Attesters().addresses


def test_unknown_network_is_refused_by_name() -> None:
    with pytest.raises(NetworkFileError, match=r"no network 'moonnet': moonnet\.toml"):
        load_network("moonnet")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_invalid_network_file_names_the_key(tmp_path: Path, edit: tuple[str, str, str]) -> None:
    before, after, message = edit
    text = MAINNET.read_text()
    assert before in text
    (tmp_path / "mainnet.toml").write_text(text.replace(before, after, 1))
    with pytest.raises(NetworkFileError, match=message):
        load_network("mainnet", folder=tmp_path)


def test_unknown_chain_error_lists_known_ones() -> None:
    network = load_network("testnet")
    with pytest.raises(NetworkFileError, match=r"has no chain eip155:1; it has stellar:testnet"):
        network.chain(ChainId("eip155:1"))


def test_base_has_cctp_and_no_oft() -> None:
    base = load_network("mainnet").chain(ChainId("eip155:8453"))
    assert isinstance(base, EvmChain)
    assert (base.cctp_domain, base.oft, base.usdt0) == (6, None, None)
    assert base.tokens == (base.usdc,)


def test_domain_and_eid_find_their_chain() -> None:
    network = load_network("mainnet")
    assert network.chain_of_domain(27) == "stellar:pubnet"
    assert network.chain_of_domain(5) is None
    assert network.chain_of_eid(30101) == "eip155:1"


def test_asset_contract_follows_asset_and_passphrase() -> None:
    stellar = load_network("mainnet").stellar
    # The ids Circle and Stellar publish for USDC and USDT0.
    assert stellar.usdc_contract == "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
    assert stellar.usdt0_contract == "CBSJZEIO5C7KC2SF3MKSNXXJSW5G3VTNBX4ATMKUI3B2MR4JKM4R26YF"


@pytest.mark.parametrize("name", ["mainnet", "testnet"])
def test_every_public_chain_has_an_explorer(name: str) -> None:
    for chain in load_network(name).chains:
        pages = [chain.explorer_tx, chain.explorer_account, chain.explorer_contract]
        hosts = {str(page).removeprefix("https://").split("/")[0] for page in pages}
        assert len(hosts) == 1, chain.name
        kinds = ("account", "contract") if chain.id.startswith("stellar:") else ("address",) * 2
        for page, end in zip(pages, ("tx/{tx}", *(f"{k}/{{address}}" for k in kinds)), strict=True):
            assert str(page).endswith(f"/{end}"), chain.name


def test_devnet_has_no_explorer() -> None:
    for chain in load_network("devnet").chains:
        assert (chain.explorer_tx, chain.explorer_account, chain.explorer_contract) == (None,) * 3


@pytest.mark.parametrize("name", ["devnet", "testnet", "mainnet"])
def test_chains_are_hashable(name: str) -> None:
    """What is made of a chain is cached by it."""
    chains = load_network(name).chains
    assert len({*chains, *load_network(name).chains}) == len(chains)
