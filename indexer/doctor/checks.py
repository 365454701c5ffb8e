"""What a check is, and its result. A group of checks is a function over a `DoctorContext`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from indexer.config.settings import Settings
from warehouse_schema.identifiers import ChainId


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found out about one subject."""

    check: str
    """Id of the check, such as `node.chain_id`."""
    subject: str
    """Chain and host, contract, account or setting. Never a URL: many have a key in their path."""
    seen: str = ""
    """What was read, for `-v`; may be empty."""
    problem: str = ""
    """A sentence; empty when all is well. Everything else is a finding."""
    fix: str = ""
    """What the operator does about the problem."""

    @property
    def is_finding(self) -> bool:
        """Whether something is wrong."""
        return bool(self.problem)


@dataclass(frozen=True, slots=True)
class Check:
    """One check, with its line in docs/doctor.md."""

    id: str
    proves: str
    """What is true when it has no finding."""
    fix: str
    """What the operator does about a finding, where the check has no better advice."""

    def ok(self, subject: str, seen: str = "") -> CheckResult:
        """All is well."""
        return CheckResult(self.id, subject, seen)

    def failed(self, subject: str, problem: str, fix: str = "") -> CheckResult:
        """A finding. A `fix` replaces the check's own."""
        return CheckResult(self.id, subject, problem=problem, fix=fix or self.fix)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What every group is given."""

    settings: Settings
    begin: Callable[[str, str], None] = lambda _check, _subject: None
    """Report that a check of a subject begins, by its id; for what takes longer than a moment.
    Threads may share it."""
    unreadable: set[ChainId] = field(default_factory=set)
    """Chains none of whose nodes is of use: a finding of the group `nodes`, and of no later one."""


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Checks that run together.

    `run` reads only, has a timeout on each request, and gives an error of its own clients as the
    result of the check that met it. What cannot be asked because of a finding is left out: one
    fault is one finding.
    """

    checks: tuple[Check, ...]
    run: Callable[[DoctorContext], Iterator[CheckResult]]
