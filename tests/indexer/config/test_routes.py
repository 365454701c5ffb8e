"""Routes, derived from the network file."""

import re
from dataclasses import FrozenInstanceError, replace

import pytest

from indexer.config.networks import Network, load_network
from indexer.config.routes import TransferRoute, TransferRouteEnd, find_route, routes
from tests.factories.deposits import with_factories, with_operator

IDS = [
    "usdc-deposit",
    "usdc-withdraw",
    "usdc-send",
    "usdt0-deposit",
    "usdt0-withdraw",
    "usdt0-send",
]


@pytest.fixture(scope="module")
def mainnet() -> Network:
    return load_network("mainnet")


@pytest.fixture(scope="module")
def sandbox() -> Network:
    return load_network("testnet")


def route(network: Network, name: str) -> TransferRoute:
    found = find_route(network, name)
    assert found is not None
    return found


def chains(ends: tuple[TransferRouteEnd, ...]) -> list[str]:
    return [end.chain for end in ends]


def every_end(network: Network) -> list[tuple[TransferRoute, TransferRouteEnd]]:
    return [(r, end) for r in routes(network) for end in (*r.source_chains, *r.dest_chains)]


@pytest.mark.parametrize("name", ["mainnet", "testnet"])
def test_every_network_has_six_routes_in_order(name):
    assert [r.id for r in routes(load_network(name))] == IDS


def test_unknown_route_is_none(mainnet):
    assert find_route(mainnet, "usdc") is None


def test_mainnet_enables_every_route(mainnet):
    assert [r.id for r in routes(mainnet) if r.enabled] == IDS


def test_testnet_usdt0_routes_are_disabled(sandbox):
    for r in routes(sandbox):
        if r.id.startswith("usdt0"):
            assert (r.enabled, r.source_chains, r.dest_chains) == (False, (), ())
        else:
            assert r.enabled


def test_route_has_only_chains_with_the_coin(mainnet):
    usdc = chains(route(mainnet, "usdc-deposit").source_chains)
    usdt0 = chains(route(mainnet, "usdt0-deposit").source_chains)
    base, berachain, ethereum = "eip155:8453", "eip155:80094", "eip155:1"
    assert base in usdc
    assert base not in usdt0
    assert berachain not in usdc
    assert berachain in usdt0
    assert ethereum in usdc
    assert ethereum in usdt0


def test_chains_follow_network_file_order(mainnet):
    with_cctp = [chain.id for chain in mainnet.evm if chain.cctp_domain is not None]
    assert chains(route(mainnet, "usdc-deposit").source_chains) == with_cctp
    assert chains(route(mainnet, "usdc-withdraw").dest_chains) == with_cctp


@pytest.mark.parametrize(
    ("name", "mechanism"), [("usdc-deposit", "cctp"), ("usdt0-withdraw", "oft")]
)
def test_stellar_is_the_other_side_of_a_bridge(mainnet, name, mechanism):
    r = route(mainnet, name)
    stellar_side = r.dest_chains if r.direction == "deposit" else r.source_chains
    assert r.mechanism == mechanism
    assert chains(stellar_side) == ["stellar:pubnet"]


def test_bridge_without_stellar_side_is_disabled(mainnet):
    without = replace(mainnet, stellar=replace(mainnet.stellar, cctp_domain=None))
    assert not route(without, "usdc-deposit").enabled
    assert not route(without, "usdc-withdraw").enabled
    assert route(without, "usdc-send").enabled
    assert route(without, "usdt0-deposit").enabled


def test_bridge_without_evm_side_is_disabled(mainnet):
    alone = replace(mainnet, evm=())
    assert [r.id for r in routes(alone) if r.enabled] == ["usdc-send", "usdt0-send"]
    assert route(alone, "usdc-withdraw").source_chains == ()


def test_send_route_stays_on_stellar(mainnet):
    r = route(mainnet, "usdt0-send")
    assert r.mechanism == "payment"
    assert chains(r.source_chains) == chains(r.dest_chains) == ["stellar:pubnet"]


def test_assets_are_caip_19_or_code_and_issuer(mainnet):
    deposit = route(mainnet, "usdc-deposit")
    ethereum = deposit.source("eip155:1")
    assert ethereum is not None
    assert ethereum.asset == "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
    assert deposit.dest_chains[0].asset == (
        "stellar:USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
    )
    for _, end in every_end(mainnet):
        assert re.fullmatch(r"eip155:\d+/erc20:0x[0-9a-f]{40}|stellar:\w+:G[A-Z2-7]{55}", end.asset)
        assert end.asset.startswith(end.chain.partition(":")[0])


def test_maximum_is_20_dollars_in_chain_decimals(mainnet):
    for _, end in every_end(mainnet):
        assert end.max_amount == (20_000_000 if end.chain.startswith("eip155:") else 200_000_000)


def test_limits_are_whole_multiples_of_the_step(mainnet):
    for _, end in every_end(mainnet):
        assert 0 < end.min_amount <= end.max_amount
        assert end.min_amount % end.amount_step == 0
        assert end.max_amount % end.amount_step == 0


def test_stellar_amounts_cross_in_steps_of_10(mainnet):
    steps = {
        name: {end.amount_step for end in route(mainnet, name).source_chains}
        for name in ("usdc-withdraw", "usdt0-withdraw", "usdc-send", "usdc-deposit")
    }
    assert steps == {
        "usdc-withdraw": {10},
        "usdt0-withdraw": {10},
        "usdc-send": {1},
        "usdc-deposit": {1},
    }


def test_send_may_be_of_one_base_unit(mainnet):
    assert route(mainnet, "usdc-send").source_chains[0].min_amount == 1


def test_deposit_address_needs_an_operator():
    for network in (with_factories("mainnet"), load_network("devnet")):
        assert all("deposit_address" not in end.funding_modes for _, end in every_end(network))
    network = with_operator(with_factories("mainnet"))
    for r, end in every_end(network):
        paid_in = r.direction == "deposit" and end in r.source_chains
        assert end.funding_modes == (("direct", "deposit_address") if paid_in else ())


def test_only_deposits_have_funding_modes(mainnet):
    for r, end in every_end(mainnet):
        paid_in = r.direction == "deposit" and end in r.source_chains
        assert end.funding_modes == (("direct",) if paid_in else ())


def test_variable_fees_are_left_to_the_quote(mainnet):
    assert {r.id: r.fee.quoted for r in routes(mainnet)} == {
        "usdc-deposit": ("cctp_fast_fee",),
        "usdc-withdraw": (),
        "usdc-send": (),
        "usdt0-deposit": ("lz_native_fee",),
        "usdt0-withdraw": ("lz_native_fee",),
        "usdt0-send": (),
    }


@pytest.mark.parametrize(
    ("network", "name", "side", "chain", "seconds"),
    [
        # Circle's Fast figure; a chain without Fast; no published figure: (65 + 1) blocks of 12 s.
        ("mainnet", "usdc-deposit", "source", "eip155:1", 20),
        ("mainnet", "usdc-deposit", "source", "eip155:143", 5),
        ("testnet", "usdc-deposit", "source", "eip155:11155111", 792),
        # A Stellar ledger is final: one of 5.5 s.
        ("mainnet", "usdc-withdraw", "source", "stellar:pubnet", 6),
        # 321 ledgers of 5.5 s for USDT0's verifiers; an EVM chain counts its own finality.
        ("mainnet", "usdt0-withdraw", "source", "stellar:pubnet", 1766),
        ("mainnet", "usdt0-deposit", "source", "eip155:1", 792),
        # Two blocks to land.
        ("mainnet", "usdc-withdraw", "dest", "eip155:1", 24),
        ("mainnet", "usdc-deposit", "dest", "stellar:pubnet", 11),
        ("mainnet", "usdc-send", "source", "stellar:pubnet", 11),
        ("mainnet", "usdc-send", "dest", "stellar:pubnet", 0),
        ("mainnet", "usdc-withdraw", "dest", "eip155:42161", 1),
    ],
)
def test_expected_seconds_follow_finality(network, name, side, chain, seconds):
    end = getattr(route(load_network(network), name), side)(chain)
    assert end.expected_seconds == seconds


def test_route_lacks_chains_of_other_side(mainnet):
    deposit = route(mainnet, "usdc-deposit")
    assert deposit.source("stellar:pubnet") is None
    assert deposit.dest("eip155:1") is None


def test_route_is_frozen(mainnet):
    with pytest.raises(FrozenInstanceError):
        route(mainnet, "usdc-send").direction = "deposit"
