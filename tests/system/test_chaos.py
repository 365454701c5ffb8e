"""The chaos harness: its checker, its records, and a few short runs."""

import inspect
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.bridges import DUST, Bridges
from devnet.customers import ASSETS, Purse, open_accounts
from devnet.stellar.accounts import keypair
from devnet.transfers import Holding, Played
from tests.system.chaos.bare import bare_run
from tests.system.chaos.chains import fresh_chains
from tests.system.chaos.contents import Contents, differences
from tests.system.chaos.ingest import kind_of
from tests.system.chaos.outcome import Outcome, result
from tests.system.chaos.proof import PLANTED, prove_checker
from tests.system.chaos.site import Site, site
from tests.system.chaos.transfers import outcome as of_transfers
from tests.system.chaos.transfers.checker import judge, supply
from tests.system.chaos.transfers.kinds import KINDS, ChaosPlays
from tests.system.chaos.transfers.run import transfers_run


@pytest.fixture(scope="module")
def place() -> Iterator[Site]:
    with site() as place:
        yield place


@pytest.mark.timeout(600)
def test_checker_detects_every_planted_difference(place: Site) -> None:
    found = prove_checker(place, seed=5)
    assert [each.what for each in PLANTED] == found[: len(PLANTED)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_reorgs_and_faults_equal_a_straight_run(place: Site, seed: int) -> None:
    outcome = bare_run(place, seed, acts=20)
    assert outcome.differences == []
    assert outcome.findings == []
    assert outcome.kills.total() >= 4
    assert outcome.rows > 200


@pytest.mark.timeout(1200)
def test_transfers_complete_despite_killed_processes(place: Site) -> None:
    run = transfers_run(place, 3, transfers=2)
    assert run.problems == []
    assert run.completed.total() == run.transfers == 2
    assert run.kills.total() >= 1


def test_account_setup_omits_a_party_without_account(tmp_path: Path) -> None:
    with fresh_chains(tmp_path, random.Random(1)) as chains:
        [key] = open_accounts(
            {"nobody": Purse({}, {"usdc": 7}, has_account=False)}, chains.paced, chains.evm
        ).values()
        assert chains.paced.account(key.public_key) is None


def test_loss_and_double_payment_are_seen_from_chains_alone(tmp_path: Path) -> None:
    with fresh_chains(tmp_path, random.Random(1)) as chains:
        purse = Purse({"usdc": 50 * DUST}, {"usdt0": 7})
        keys = open_accounts({"has less": purse, "has more": purse}, chains.paced, chains.evm)
        before = supply(chains)
        holdings = [
            (name, Holding("stellar", key.public_key, "usdc", 50 * DUST))
            for name, key in keys.items()
        ]
        assert judge(chains, holdings, before).is_clean
        chains.paced.issue(keys["has more"].public_key, ASSETS["usdc"], 50 * DUST)
        paid_twice = judge(chains, holdings, before)
        wallet = chains.evm.addresses.usdc
        Bridges(chains.evm, chains.paced).burn_on_stellar(keypair("has less"), wallet, DUST)
        both = judge(chains, holdings, before)
    assert [finding.split(":")[0] for finding in paid_twice.double] == ["has more"]
    assert (paid_twice.lost, len(paid_twice.sums)) == ([], 1)
    assert [finding.split(":")[0] for finding in both.lost] == ["has less"]
    assert both.double == paid_twice.double
    assert both.sums not in ([], paid_twice.sums)


def test_every_played_kind_of_transfer_is_a_chaos_kind() -> None:
    played = {
        name
        for name, method in inspect.getmembers(ChaosPlays, inspect.isfunction)
        if not name.startswith("_")
        and inspect.signature(method).return_annotation in (Played, "Played")
    }
    assert {kind.partition(" ")[2] for kind in KINDS} == played


def test_transfers_run_survives_json_round_trip() -> None:
    run = of_transfers.Run(7, transfers=40, lost=["x"], reorgs=[3])
    run.points["relay|relay.slots|committed"] += 2
    assert of_transfers.Run.from_json(run.to_json()) == run


def test_crash_matrix_has_one_line_per_commit_point() -> None:
    runs = [of_transfers.Run(1), of_transfers.Run(2, double=["x"])]
    for run in runs:
        run.points["relay|relay.slots|committed"] += 2
        run.points["api|intake.quotes|aborted"] += 1
        run.points["postgres under relay|relay.slots|committed"] += 3
        run.kills["relay"] += 3
    _, *lines = of_transfers.matrix(runs)
    assert [line.split() for line in lines] == [
        ["api", "intake.quotes", "2"],
        ["postgres", "under", "relay", "relay.slots", "6"],
        ["relay", "relay.slots", "4"],
    ]
    shown = of_transfers.result(runs, 1.26)
    assert (shown["kills"], shown["lost"], shown["double"], shown["stuck"]) == (6, 0, 1, 0)


def test_equal_contents_have_no_differences() -> None:
    rows = {"facts.blocks": ('{"height": 1}', '{"height": 2}')}
    assert differences(Contents(rows), Contents({**rows})) == []


def test_each_extra_row_is_one_difference() -> None:
    straight = Contents({"t": ("a", "b")})
    assert len(differences(Contents({"t": ("a", "b", "b", "b")}), straight)) == 2


def test_missing_table_is_a_difference() -> None:
    assert differences(Contents({}), Contents({"t": ("a",)})) == ["t: lost a"]


def test_outcome_survives_json_round_trip() -> None:
    outcome = Outcome(7, "bare", differences=["x"], reorgs=[64])
    outcome.kills["follower"] += 2
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_result_counts_every_run() -> None:
    first, second = Outcome(1, "bare"), Outcome(9, "stack", differences=["lost", "lost"])
    first.kills["follower"], second.kills["whole stack"] = 3, 1
    first.faults["429"] = 5
    assert result([first, second], 1.26) == {
        "name": "chaos_ingest",
        "runs": 2,
        "faults": 5,
        "kills": 4,
        "full_stack_kills": 1,
        "minutes": 1.3,
        "differences": 2,
    }


def test_two_hundred_seeds_run_the_whole_stack_twenty_times() -> None:
    first = random.Random(1).randrange(10**6)
    seeds = range(first, first + 200)
    assert sum(kind_of(seed) == "stack" for seed in seeds) >= 20
