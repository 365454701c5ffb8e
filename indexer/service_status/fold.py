"""Whether transfers are moving, and what is not: computed in one place.

`/v1/status` publishes it, `isthmus status` prints it, and Dagster's check `all_is_well` fails by
it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, Row, func, select

from indexer.analytics.reconciliation import MAX_AGE_SECONDS, is_overdue
from indexer.config.networks import Network
from indexer.config.routes import TransferRoute, routes
from indexer.facts.health import REASON_TEXTS, ChainHealth, assess
from indexer.facts.status import ChainStatus, chain_status_on
from indexer.policy.relay_accounts import Duty, RelayAccountStatus, account_statuses
from indexer.service_status.availability import (
    followed_chains,
    healthy_chains,
    is_dest_available,
    is_source_available,
    relay_sends_at_dest,
    relay_sends_at_source,
    relayed_chains,
)
from indexer.service_status.durations import NO_DURATIONS, Durations, RouteLane, lane_durations
from indexer.service_status.incidents import Incident, recent_incidents
from warehouse_schema.identifiers import ChainId
from warehouse_schema.projections import reconciliation

ServiceVerdict: TypeAlias = Literal["moving", "impaired", "stopped", "unknown"]
"""`impaired`: some transfers do not move, or the money does not add up. `unknown`: nothing has been
ingested, or no relay has reported, so nothing can be said."""
ProblemKind: TypeAlias = Literal["chain", "relay", "late", "sums"]

_HOLDS_UP: frozenset[ProblemKind] = frozenset({"chain", "relay", "late"})
"""Problems that keep transfers from moving."""

_NEEDED_DUTIES: tuple[Duty, ...] = ("deliver", "submit")
"""Without a healthy account for one of these, transfers do not move."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not well."""

    kind: ProblemKind
    text: str
    """For anyone: names no node, account, transfer or error."""
    detail: str
    """For operators."""


@dataclass(frozen=True, slots=True)
class ChainState:
    """A followed chain and its health."""

    name: str
    status: ChainStatus
    health: ChainHealth

    @property
    def age_seconds(self) -> int | None:
        """Whole seconds since the last block was ingested; None before the first."""
        idle = self.status.idle_seconds
        return None if idle is None else int(idle)


@dataclass(frozen=True, slots=True)
class LaneState:
    """A route between two followed chains on which the relay has the accounts it needs."""

    lane: RouteLane
    available: bool
    expected_seconds: int
    """Usual time, of both chains."""
    durations: Durations
    """Of its last transfers."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The whole service, as of one snapshot."""

    as_of: datetime
    """Database clock."""
    chains: tuple[ChainState, ...]
    lanes: tuple[LaneState, ...]
    reconciliation: Row[Any] | None
    """The last one; None before the first."""
    incidents: tuple[Incident, ...]
    problems: tuple[Problem, ...]
    readiness_problems: tuple[Problem, ...]
    """Those of them for which `/readyz` answers 503."""
    warnings: tuple[str, ...]
    """Work for operators that holds up no transfer."""
    unknown: tuple[str, ...]
    """Why nothing can be said of transfers; empty when something can."""

    @property
    def verdict(self) -> ServiceVerdict:
        """In one word."""
        if self.unknown:
            return "unknown"
        if not any(each.available for each in self.lanes):
            return "stopped"
        return "impaired" if self.problems else "moving"

    @property
    def sentence(self) -> str:
        """The verdict and its reasons in one sentence, for anyone."""
        return self._sentence([each.text for each in self.problems])

    @property
    def operator_sentence(self) -> str:
        """As `sentence`, with reasons that may name nodes and accounts."""
        return self._sentence([each.detail for each in self.problems])

    def _sentence(self, problems: Sequence[str]) -> str:
        verdict = self.verdict
        if verdict == "moving":
            return "Transfers are moving."
        if verdict == "unknown":
            return _say("It is not known whether transfers are moving", self.unknown, problems)
        if verdict == "stopped":
            return _say("Transfers are not moving", problems)
        if any(each.kind in _HOLDS_UP for each in self.problems):
            return _say("Some transfers are not moving", problems)
        return f"Transfers are moving, but {'; '.join(problems)}."


def _say(what: str, *reasons: Sequence[str]) -> str:
    found = list(dict.fromkeys(each for some in reasons for each in some))
    return f"{what}: {'; '.join(found)}." if found else f"{what}."


def service_status(conn: Connection, network: Network) -> ServiceStatus:
    """The status of the service, in the connection's transaction. Reads no node and no key."""
    chains = chain_states(conn, network)
    accounts = account_statuses(conn)
    last = conn.execute(select(reconciliation)).one_or_none()
    findings = [] if last is None else last.findings
    unhealthy, overdue = tuple(ingestion_problems(chains)), tuple(overdue_problems(conn))
    return ServiceStatus(
        as_of=conn.execute(select(func.now())).scalar_one(),
        chains=tuple(chains),
        lanes=tuple(_lanes(network, chains, accounts, lane_durations(conn))),
        reconciliation=last,
        incidents=tuple(recent_incidents(conn)),
        problems=(
            *unhealthy,
            *_relay_problems(accounts),
            *_late_problems(findings),
            *_sum_problems(findings),
            *overdue,
        ),
        readiness_problems=unhealthy + overdue,
        warnings=(*_chain_warnings(chains), *_account_warnings(accounts)),
        unknown=tuple(_unknown(network, chains, accounts)),
    )


def chain_states(conn: Connection, network: Network) -> list[ChainState]:
    """The followed chains, in the network's order."""
    found = []
    for status in followed_chains(network, chain_status_on(conn, network)):
        chain = network.chain(status.chain)
        found.append(ChainState(chain.name, status, assess(chain, status)))
    return found


def ingestion_problems(chains: Sequence[ChainState]) -> Iterator[Problem]:
    """Followed chains that are not healthy."""
    for each in chains:
        reason = each.health.reason
        if reason is not None:
            chain = each.status.chain
            yield Problem(
                "chain",
                f"{chain} {REASON_TEXTS[reason]}",
                f"{chain} {reason}: {each.health.detail}",
            )


def overdue_problems(conn: Connection) -> Iterator[Problem]:
    """A reconciliation that is too old."""
    if is_overdue(conn):
        text = f"the last reconciliation is over {MAX_AGE_SECONDS // 60} minutes old"
        yield Problem("sums", text, text)


def _relay_problems(accounts: Sequence[RelayAccountStatus]) -> Iterator[Problem]:
    for duty in _NEEDED_DUTIES:
        bound = [each for each in accounts if each.duty == duty]
        for chain in sorted({each.chain for each in bound} - healthy_chains(accounts, duty)):
            reasons = [_account_reason(each) for each in bound if each.chain == chain]
            yield Problem(
                "relay",
                f"the relayer of {chain} is not available right now",
                f"no relay account can {duty} on {chain} ({', '.join(reasons)})",
            )


def _account_reason(account: RelayAccountStatus) -> str:
    reason = account.reason or ""
    if account.is_silent:
        reason = f"no report for {account.seen_ago:.0f} s"
    return f"{account.account}: {reason}"


def _late_problems(findings: Sequence[Any]) -> Iterator[Problem]:
    late = [each["detail"] for each in findings if each["check"] == "transfers_move_on"]
    if late:
        text = f"{_count(len(late), 'transfer takes', 'transfers take')} longer than allowed for"
        yield Problem("late", text, f"{text} (first: {late[0]})")


def _sum_problems(findings: Sequence[Any]) -> Iterator[Problem]:
    wrong = [each["detail"] for each in findings if each["check"] != "transfers_move_on"]
    if wrong:
        count = _count(len(wrong), "finding", "findings")
        text = f"the sums of money do not add up ({count})"
        yield Problem("sums", text, f"{text}, first: {wrong[0]}")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _chain_warnings(chains: Sequence[ChainState]) -> Iterator[str]:
    for each in chains:
        for warning in each.health.warnings:
            yield f"{each.status.chain}: {warning}"


def _account_warnings(accounts: Sequence[RelayAccountStatus]) -> Iterator[str]:
    for each in accounts:
        # Without another account on its chain it is a problem.
        is_problem = each.duty in _NEEDED_DUTIES and each.chain not in healthy_chains(
            accounts, each.duty
        )
        if not (each.is_healthy or is_problem):
            yield f"relay account to {each.duty} on {each.chain}, {_account_reason(each)}"


def _unknown(
    network: Network, chains: Sequence[ChainState], accounts: Sequence[RelayAccountStatus]
) -> Iterator[str]:
    for each in chains:
        if each.status.chain == network.stellar.id and each.status.height is None:
            yield f"{each.status.chain} {REASON_TEXTS['NOT_STARTED']}"
    if not any(each.duty == "deliver" for each in accounts):
        yield "no relay has reported yet"


def _lanes(
    network: Network,
    chains: Sequence[ChainState],
    accounts: Sequence[RelayAccountStatus],
    durations: dict[RouteLane, Durations],
) -> Iterator[LaneState]:
    followed = {each.status.chain for each in chains}
    healthy = {each.status.chain for each in chains if each.health.is_well}
    relayed = relayed_chains(accounts)
    relaying = frozenset(each.chain for each in accounts if each.duty == "deliver")
    for route in routes(network):
        for lane, seconds in _lanes_of(route):
            source, dest = lane.source_chain, lane.dest_chain
            if not {source, dest} <= followed or not _needed_relays(route, lane) <= relaying:
                continue
            available = is_source_available(source, healthy, relayed) and is_dest_available(
                route.mechanism, dest, healthy, relayed
            )
            yield LaneState(lane, available, seconds, durations.get(lane, NO_DURATIONS))


def _lanes_of(route: TransferRoute) -> Iterator[tuple[RouteLane, int]]:
    """The lanes of a route with their usual seconds."""
    for source in route.source_chains:
        for dest in route.dest_chains:
            seconds = source.expected_seconds + dest.expected_seconds
            yield RouteLane(route.id, source.chain, dest.chain), seconds


def _needed_relays(route: TransferRoute, lane: RouteLane) -> set[ChainId]:
    needed: set[ChainId] = set()
    if relay_sends_at_source(lane.source_chain):
        needed.add(lane.source_chain)
    if relay_sends_at_dest(route.mechanism):
        needed.add(lane.dest_chain)
    return needed
