"""Proof that the checker sees what it is for: a planted loss, a planted double payment, a webhook
that is told otherwise than promised, a transfer that does not end. A checker that cannot fail
proves nothing; so this comes before every run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from devnet.bridges import DUST, Bridges
from devnet.customers import ASSETS
from devnet.stellar.accounts import keypair
from devnet.transfers import Played
from tests.system.chaos.site import Site
from tests.system.chaos.transfers.checker import CheckerFailed, Verdict, judge
from tests.system.chaos.transfers.hook_proof import prove_hooks
from tests.system.chaos.transfers.kinds import KINDS
from tests.system.chaos.transfers.outcome import Run
from tests.system.chaos.transfers.run import Stage, staged


@dataclass(frozen=True)
class Planted:
    """Something done to the chains behind the service's back, and what a verdict must then hold."""

    what: str
    plant: Callable[[Stage, Played], None]
    is_seen: Callable[[Verdict, Verdict], bool]
    """By the verdicts before and after."""


def _burn(stage: Stage, played: Played) -> None:
    """Burn some of what came, and deliver it nowhere."""
    wallet = stage.evm.addresses.usdc
    Bridges(stage.evm, stage.ledgers).burn_on_stellar(played.who.key, wallet, DUST)


def _pay_again(stage: Stage, played: Played) -> None:
    """What was delivered, once more."""
    assert played.delivered is not None
    stage.ledgers.issue(played.who.account, ASSETS["usdc"], played.delivered)


def _move(stage: Stage, played: Played) -> None:
    """Pay a unit of it to somebody who is to have another amount: the sums stay."""
    other = next(each for _, each in stage.played.values() if each.what == "usdt0-deposit")
    stage.ledgers.trust(other.who.key, ASSETS["usdc"])
    stage.ledgers.pay(keypair(played.who.name), other.who.account, ASSETS["usdc"], 1)


PLANTED = (
    Planted(
        "a planted loss",
        _burn,
        lambda before, after: len(after.lost) > len(before.lost) and after.sums != before.sums,
    ),
    Planted(
        "a planted double payment",
        _pay_again,
        lambda before, after: len(after.double) > len(before.double) and after.sums != before.sums,
    ),
    Planted(
        "a payment to somebody else",
        _move,
        lambda before, after: after != before and after.sums == before.sums,
    ),
)


def prove_checker(site: Site, seed: int) -> list[str]:
    """A transfer of each kind in peace, and then each planted; what was found.

    Raises `CheckerFailed`.
    """
    run = Run(seed)
    with staged(site.folder, site.postgres, site.nursery, seed, len(KINDS), run) as stage:
        stage.play(in_peace=True)
        stage.judge()
        if run.problems:
            raise CheckerFailed(f"in peace there is {run.problems}")
        [played] = [each for _, each in stage.played.values() if each.what == "usdc-deposit"]
        found = [_planted(stage, played, each) for each in PLANTED]
        found += prove_hooks(stage)
        stage.shown.pop(played.transfer)
        stage.judge()
        if len(run.stuck) != 1 or played.transfer not in run.stuck[0]:
            raise CheckerFailed(f"a transfer that did not end was told as {run.stuck}")
    return [*found, "a transfer that does not end"]


def _planted(stage: Stage, played: Played, planted: Planted) -> str:
    before = judge(stage.chains, stage.expected(), stage.before)
    planted.plant(stage, played)
    after = judge(stage.chains, stage.expected(), stage.before)
    if not planted.is_seen(before, after):
        raise CheckerFailed(f"{planted.what}: {after} after {before}")
    return planted.what
