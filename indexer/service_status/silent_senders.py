"""Relays and webhook senders that the configuration names and that do not report."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from indexer.config.networks import Network
from indexer.config.senders import RELAY, SERVER, SPONSOR, WEBHOOKS, named_senders
from indexer.policy.relay_accounts import SILENT_SECONDS, Duty, account_statuses
from warehouse_schema.queries import seconds_since
from warehouse_schema.relay import webhook_senders

_SENDERS: Mapping[Duty, str] = {"deliver": RELAY, "sponsor": SPONSOR}
"""Submissions have no key, and so no variable, of their own."""


@dataclass(frozen=True, slots=True)
class SilentSender:
    """What the configuration has send, and does not report."""

    sender: str
    """As `named_senders` calls it."""
    variable: str
    """The variable that names it."""
    silent_seconds: float | None
    """Since its last report; None: it has never reported."""

    @property
    def problem(self) -> str:
        """What is wrong, without the sender's name."""
        report = (
            "has never reported"
            if self.silent_seconds is None
            else f"has not reported for {self.silent_seconds:.0f} s"
        )
        return f"configured by {self.variable}, {report}: is it running?"


def silent_senders(
    conn: Connection, network: Network, variables: Mapping[str, str]
) -> list[SilentSender]:
    """What these variables name and has not reported for `SILENT_SECONDS`."""
    reports = _reports(conn)
    found = [
        SilentSender(sender, variable, reports.get(sender))
        for sender, variable in named_senders(network, variables).items()
    ]
    return [
        each
        for each in found
        if each.silent_seconds is None or each.silent_seconds > SILENT_SECONDS
    ]


def _reports(conn: Connection) -> dict[str, float]:
    """Sender → seconds since the last report of any account or process of it."""
    seen = [
        (f"{_SENDERS[each.duty]} {each.chain}", each.seen_ago)
        for each in account_statuses(conn)
        if each.duty in _SENDERS
    ]
    webhooks = conn.scalar(select(seconds_since(func.max(webhook_senders.c.seen_at))))
    if webhooks is not None:
        seen.append((WEBHOOKS, webhooks))
    found: dict[str, float] = {}
    for sender, seconds in seen:
        for name in (sender, SERVER):
            found[name] = min(seconds, found.get(name, seconds))
    return found
