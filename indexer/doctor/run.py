"""The table of check groups, and running them."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import IndexerError

GROUPS: Mapping[str, str] = {
    "nodes": "indexer.doctor.nodes:GROUP",
    "contracts": "indexer.doctor.contracts:GROUP",
    "services": "indexer.doctor.services:GROUP",
    "postgres": "indexer.doctor.postgres:GROUP",
    "sessions": "api.sessions:GROUP",
    "keys": "relay.doctor:GROUP",
    "senders": "indexer.doctor.senders:GROUP",
    "home": "api.doctor:GROUP",
    "dagster": "pipelines.doctor:GROUP",
}
"""Name → `module:attribute` of its `CheckGroup`, which may be in a package that the indexer does
not import. In the order in which they run."""

COMPLETED = Check(
    "doctor.completed",
    "The group's settings could be read, and its checks ran to their end.",
    "Correct the setting that the finding names, then run the group again with --only.",
)


def load_group(name: str) -> CheckGroup:
    """The group of that name. Raises `KeyError`, and `ImportError` without its package."""
    module, _, attribute = GROUPS[name].partition(":")
    group: CheckGroup = getattr(import_module(module), attribute)
    return group


def run_groups(context: DoctorContext, names: Sequence[str]) -> Iterator[tuple[str, CheckResult]]:
    """(group, result) of every check of these groups, as they come.

    An error that stops a group is a finding; the other groups still run.
    """
    for name in names:
        try:
            for result in load_group(name).run(context):
                yield name, result
        except IndexerError as error:
            yield name, COMPLETED.failed(name, f"{type(error).__name__}: {error}")
        else:
            yield name, COMPLETED.ok(name)
