"""Proof that the comparison sees what it is for: a planted loss, a planted double, a planted lie.

A comparison that cannot fail proves nothing; so this runs before every `make chaos`.
"""

import random
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg

from tests.system.chaos.chains import fresh_chains
from tests.system.chaos.comparing import drain_straight
from tests.system.chaos.contents import Contents, differences, orphan_problems, read_contents
from tests.system.chaos.history import History
from tests.system.chaos.site import Site, database

_ACTS = 25


class CheckerFailed(AssertionError):
    """The comparison missed something that was planted, or saw what is not there."""


@dataclass(frozen=True)
class Planted:
    """A statement that spoils a copy, and the sentences that the comparison must begin with."""

    what: str
    statement: str
    told: tuple[str, ...]


PLANTED = (
    Planted(
        "a lost fact",
        "DELETE FROM facts.erc20_transfers WHERE ctid ="
        " (SELECT min(ctid) FROM facts.erc20_transfers)",
        ("facts.erc20_transfers: lost",),
    ),
    Planted(
        "a lost block",
        "DELETE FROM facts.blocks WHERE ctid = (SELECT max(ctid) FROM facts.blocks)",
        ("facts.blocks: lost",),
    ),
    Planted(
        "a movement counted twice",
        "INSERT INTO projections.movements SELECT (jsonb_populate_record(t,"
        " jsonb_build_object('id', t.id || ':again'))).*"
        " FROM projections.movements AS t ORDER BY id LIMIT 1",
        ("projections.movements: not in the straight run",),
    ),
    Planted(
        "a message published twice",
        "INSERT INTO projections.stream_events (chain, ledger, channel, op, entry, last, revised)"
        " SELECT chain, ledger, channel, op, entry, last, revised FROM projections.stream_events"
        " ORDER BY id DESC LIMIT 1",
        ("projections.stream_events: not in the straight run",),
    ),
    Planted(
        "an amount that is off by one",
        "UPDATE projections.providers SET free = free + 1 WHERE provider ="
        " (SELECT min(provider) FROM projections.providers)",
        (
            "projections.providers: lost",
            "projections.providers: not in the straight run",
        ),
    ),
    Planted(
        "two messages in the wrong order",
        "UPDATE projections.stream_events AS e SET channel = o.channel, op = o.op,"
        " entry = o.entry, last = o.last, ledger = o.ledger"
        " FROM projections.stream_events AS o"
        " WHERE (e.id, o.id) IN ((:first, :last), (:last, :first))",
        ("projections.stream_events: row 0 is out of order",),
    ),
)


def prove_checker(site: Site, seed: int) -> list[str]:
    """Plant each in a copy of a real warehouse; what was found. Raises `CheckerFailed`."""
    name = f"chaos_proof_{seed}"
    folder = site.folder / name
    folder.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(database(site.straight, name))
        chains = stack.enter_context(fresh_chains(folder, random.Random(seed)))
        _live(History(chains, random.Random(seed)))
        drain_straight(chains, url)
        straight = read_contents(url)
        hashes = chains.hashes()
        found = [_planted(site, name, straight, each) for each in PLANTED]
    _check_orphans(hashes)
    return [*found, "an orphan whose block stands"]


def _live(history: History) -> None:
    for step in history.set_up():
        step()
    for _ in range(2):
        # Whatever chance brings, these have happened.
        history.act_on_evm()
        history.act_on_stellar()
    for _ in range(_ACTS):
        history.act()
    history.transfer_to_watched()
    history.close()


def _planted(site: Site, name: str, straight: Contents, planted: Planted) -> str:
    with database(site.straight, f"{name}_copy", name) as url:
        if differences(read_contents(url), straight):
            raise CheckerFailed("a copy is not what it was copied from")
        with psycopg.connect(url) as connection:
            connection.execute(_filled(connection, planted.statement))
        told = differences(read_contents(url), straight)
    begins = len(told) == len(planted.told) and all(
        sentence.startswith(words) for sentence, words in zip(told, planted.told, strict=True)
    )
    if not begins:
        raise CheckerFailed(f"{planted.what} was told as {told}")
    return planted.what


def _filled(connection: psycopg.Connection, statement: str) -> bytes:
    """The statement with the ids of the first message and of the first one unlike it."""
    if ":first" not in statement:
        return statement.encode()
    row = connection.execute(
        "SELECT first.id, min(other.id) FROM projections.stream_events AS other,"
        " (SELECT * FROM projections.stream_events ORDER BY id LIMIT 1) AS first"
        " WHERE other.entry <> first.entry GROUP BY first.id"
    ).fetchone()
    if row is None:
        raise CheckerFailed("there are no two messages to put in the wrong order")
    return statement.replace(":first", str(row[0])).replace(":last", str(row[1])).encode()


def _check_orphans(hashes: dict[str, dict[int, str]]) -> None:
    chain, blocks = next(iter(hashes.items()))
    height, block_hash = max(blocks.items())
    standing, gone = (chain, height, block_hash, "0x1"), (chain, height, "0xdead", "0x2")
    told = orphan_problems([standing, gone], hashes)
    if len(told) != 1 or block_hash not in told[0]:
        raise CheckerFailed(f"an orphan whose block stands was told as {told}")
