"""What the promoted server is compared with: acknowledgements, broadcasts, facts."""

import base64
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import psycopg

from tests.system.chaos.chains import STELLAR
from tests.system.chaos.comparing import drain_straight
from tests.system.chaos.contents import Contents, differences, read_contents
from tests.system.chaos.site import database
from tests.system.chaos.transfers.run import Stage
from tests.system.failover.load import Load
from tests.system.failover.nodes import Pair
from tests.system.faults.fault import Call

_OF_SERVICES = {
    *("facts.cctp_attestations", "facts.message_polls", "facts.message_status"),
    *("facts.lost_sources", "facts.unproven_blocks", "facts.expiries"),
}
"""From services or a clock: a straight run asks neither."""
_OF_WATCHED_ACCOUNTS = {"facts.asset_movements", "facts.blocks", "facts.stellar_events"}
"""Have events of them, or count those."""


@dataclass
class Broadcasts:
    """Signed transactions that reached a node."""

    signed: list[bytes] = field(default_factory=list)

    def watch(self, calls: Sequence[Call]) -> None:
        """Keep those among a node's calls."""
        for call in calls:
            if call["method"] == "eth_sendRawTransaction":
                self.signed.append(bytes.fromhex(call["params"][0].removeprefix("0x")))
            elif call["method"] == "sendTransaction":
                self.signed.append(base64.b64decode(call["params"]["transaction"]))


def lost_acknowledgements(url: str, load: Load, stage: Stage) -> Iterator[str]:
    """Transfers and submissions that were acknowledged and are not there, or are there twice."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT id, owner, idempotency_key FROM intake.transfers").fetchall()
        by_id = {row[0]: (row[1], row[2]) for row in rows}
        for each in load.acknowledged:
            stored = by_id.get(each.transfer)
            if stored != (each.owner, each.key):
                yield f"transfer {each.transfer} was acknowledged, and is {stored}"
        for transfer in stage.played:
            if transfer not in by_id:
                yield f"transfer {transfer} was acknowledged, and is not there"
        known = {each.transfer for each in load.acknowledged}
        for transfer, (owner, key) in by_id.items():
            if owner in load.owners and transfer not in known:
                yield f"transfer {transfer} of key {key!r} is a second one"
        for transfer, tx in stage.mischief.submitted:
            if not _has_submission(conn, transfer, tx):
                yield f"submission {tx[:80]} of {transfer} was acknowledged, and is not there"


def _has_submission(conn: psycopg.Connection, transfer: str, tx: str) -> bool:
    if tx.startswith("0x"):
        query = "SELECT 1 FROM intake.submissions WHERE transfer = %s AND tx_hash = %s"
        is_hint = "SELECT 1 FROM intake.transfers WHERE id = %s AND deposit_address IS NOT NULL"
        found = conn.execute(query, (transfer, tx)).fetchone()
        # The hash of a payment to a deposit address is not stored.
        return found is not None or conn.execute(is_hint, (transfer,)).fetchone() is not None
    stored = conn.execute(
        "SELECT signed FROM intake.submissions WHERE transfer = %(transfer)s"
        " UNION ALL SELECT signed FROM intake.consents WHERE transfer = %(transfer)s",
        {"transfer": transfer},
    )
    return base64.b64decode(tx) in {bytes(row[0]) for row in stored if row[0] is not None}


def unknown_broadcasts(url: str, broadcasts: Broadcasts) -> list[str]:
    """Broadcast transactions that the warehouse does not have."""
    with psycopg.connect(url) as conn:
        known = {bytes(row[0]) for row in conn.execute("SELECT signed FROM relay.attempts")}
    return [f"broadcast, and not there: {each.hex()[:80]}" for each in {*broadcasts.signed} - known]


def numbers_sent_twice(url: str, broadcasts: Broadcasts) -> list[str]:
    """Numbers of an account for which two different transactions were broadcast."""
    sent = {*broadcasts.signed}
    of_number: dict[tuple[str, str, int], set[bytes]] = defaultdict(set)
    query = "SELECT chain, account, number, signed FROM relay.attempts"
    with psycopg.connect(url) as conn:
        for chain, account, number, signed in conn.execute(query):
            if bytes(signed) in sent:
                of_number[chain, account, number].add(bytes(signed))
    return [f"{len(each)} of {which}" for which, each in of_number.items() if len(each) > 1]


def wrong_facts(pair: Pair, url: str, stage: Stage, opened: int) -> tuple[int, list[str]]:
    """Rows that were compared, and where facts differ from those of one run without a failure.

    `opened`: the ledger in which accounts were funded, before the service watched them.
    """
    found = read_contents(url)
    with database(pair, "straight") as straight_url:
        with psycopg.connect(url) as source, psycopg.connect(straight_url) as target:
            watched = source.execute("SELECT chain, address, reason FROM intake.watched_addresses")
            with target.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO intake.watched_addresses (chain, address, reason)"
                    " VALUES (%s, %s, %s)",
                    watched.fetchall(),
                )
        drain_straight(stage.chains, straight_url)
        straight = read_contents(straight_url)
    names = {name for name in straight.rows if name.startswith("facts.")} - _OF_SERVICES
    found, straight = (_only(each, names, opened) for each in (found, straight))
    return len(straight), differences(found, straight)


def _only(contents: Contents, names: Collection[str], opened: int) -> Contents:
    """These tables, without events of watched accounts up to that ledger."""

    def is_compared(name: str, row: str) -> bool:
        if name not in _OF_WATCHED_ACCOUNTS:
            return True
        event = json.loads(row)
        return event["chain"] != STELLAR or event["height"] > opened

    return Contents(
        {
            name: tuple(row for row in rows if is_compared(name, row))
            for name, rows in contents.rows.items()
            if name in names
        }
    )
