"""How many transfers a second are carried through while ten thousand are open.

Deposits by CCTP, of 250 owners with a wallet each. Those that are carried have their burn in a
range of ten blocks with nine others', and their delivery in a range of ledgers with these; each
range is a transaction that writes its events as facts, folds movements and stages, and tells the
owners, as followers do. One process does both here, one after the other, where there is a follower
a chain. Some are carried before the clock starts; then Postgres looks at its tables, as autovacuum
does within a minute: without statistics it reads whole tables of a few hundred rows.

`kept_per_s` is how fast the run that keeps transfers folds all that were started before.
Postgres is as an operator has it (fsync on). Making transfers is `transfer_create`.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.engine import make_url

from indexer.chains.events import Event
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.keeper import catch_up
from tests.factories.intake import ask
from tests.factories.projections import address
from tests.factories.stage_facts import DIRECT, bring_in, burn, mint
from tests.factories.transfers import NETWORK
from tests.memory import server_folder
from tests.system.bench.site import milliseconds, percentile, print_line
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Address, Bytes32, StellarAddress
from warehouse_schema.migrate import migrate
from warehouse_schema.projections import transfer_states

OPEN = 10_000
CARRIED = 1_000
WARM_UP = 1_000
"""Carried before the others: as many as leave tables of the size that Postgres then plans for."""
OWNERS = 250
IN_A_RANGE = 10
_FIRST_BLOCK = 100

_QUOTES = text("""
    INSERT INTO intake.quotes
    SELECT (jsonb_populate_record(q, jsonb_build_object(
               'id', 'quote of ' || t.id, 'owner', t.owner, 'source_address', t.wallet))).*
      FROM intake.quotes AS q,
           unnest(CAST(:ids AS text[]), CAST(:owners AS text[]), CAST(:wallets AS text[]))
               AS t(id, owner, wallet)
     WHERE q.id = 'quote of ' || :first
""")
_TRANSFERS = text("""
    INSERT INTO intake.transfers
    SELECT (jsonb_populate_record(f, jsonb_build_object(
               'id', t.id, 'quote', 'quote of ' || t.id, 'owner', t.owner,
               'idempotency_key', t.id,
               'started_at', f.started_at + t.number * interval '1 microsecond'))).*
      FROM intake.transfers AS f,
           unnest(CAST(:ids AS text[]), CAST(:owners AS text[]))
               WITH ORDINALITY AS t(id, owner, number)
     WHERE f.id = :first
""")


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    before = os.getloadavg()[0]
    with _warehouse() as (owner, indexer):
        with owner.begin() as conn:
            terms = _started(conn)
        print_line(f"{len(terms)} transfers are open; load {os.getloadavg()[0]:.1f}")
        began = time.monotonic()
        with indexer.connect() as conn:
            kept = catch_up(conn, NETWORK).moved
        keeping = time.monotonic() - began
        ranges = list(_ranges(terms[: WARM_UP + CARRIED]))
        of_warm_up = 2 * WARM_UP // IN_A_RANGE
        for events in ranges[:of_warm_up]:
            _carry(indexer, events)
        with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("ANALYZE"))
        began = time.monotonic()
        seconds = [_carry(indexer, events) for events in ranges[of_warm_up:]]
        carrying = time.monotonic() - began
        _check(indexer)
    return {
        "per_s": round(CARRIED / carrying, 1),
        "open": OPEN,
        "carried": CARRIED,
        "range_p50_ms": milliseconds(percentile(seconds, 0.50)),
        "range_p99_ms": milliseconds(percentile(seconds, 0.99)),
        "in_a_range": IN_A_RANGE,
        "kept_per_s": round(kept / keeping, 1),
        "machine_load": [round(before, 1), round(os.getloadavg()[0], 1)],
    }


@contextmanager
def _warehouse() -> Iterator[tuple[Engine, Engine]]:
    with (
        server_folder("bench", memory=None) as home,
        EmbeddedPostgres(home / "postgres") as postgres,
    ):
        url = make_url(postgres.url("isthmus"))
        migrate(url)
        owner, indexer = make_engine(url), make_engine(url, role="indexer")
        yield owner, indexer
        owner.dispose()
        indexer.dispose()


def _started(conn: Connection) -> list[TransferTerms]:
    """As many as are open, all alike but for who and which."""
    owners = [StellarAddress(address(number)) for number in range(OWNERS)]
    all_terms = [
        replace(
            DIRECT,
            id=f"{number:032x}",
            owner=owners[number % OWNERS],
            source_address=Address(f"0x{number % OWNERS:040x}"),
        )
        for number in range(OPEN)
    ]
    first, *others = all_terms
    ask(conn, first)
    told = {
        "first": first.id,
        "ids": [each.id for each in others],
        "owners": [each.owner for each in others],
        "wallets": [each.source_address for each in others],
    }
    conn.execute(_QUOTES, told)
    conn.execute(_TRANSFERS, told)
    return all_terms


def _ranges(terms: Sequence[TransferTerms]) -> Iterator[list[Event]]:
    """The events of each range, of either chain in turn."""
    heights = dict(zip(terms, count(_FIRST_BLOCK)))
    for start in range(0, len(terms), IN_A_RANGE):
        some = terms[start : start + IN_A_RANGE]
        yield [
            event for each in some for event in burn(each, heights[each], f"{heights[each]:064x}")
        ]
        yield [event for each in some for event in _mint(each, heights[each])]


def _carry(indexer: Engine, events: Sequence[Event]) -> float:
    """Write a range's events as a follower does; returns the seconds it takes."""
    began = time.monotonic()
    with indexer.begin() as conn:
        bring_in(conn, *events)
    return time.monotonic() - began


def _mint(terms: TransferTerms, height: int) -> list[Event]:
    name = f"{height:064x}"
    return mint(terms, height, name, Bytes32(f"0x{name}"))


def _check(indexer: Engine) -> None:
    """Raises `RuntimeError` unless all that were carried are there, and no others."""
    with indexer.connect() as conn:
        query = select(transfer_states.c.stage, func.count()).group_by(transfer_states.c.stage)
        stages: dict[str, int] = dict(conn.execute(query).tuples().all())
    carried = WARM_UP + CARRIED
    wanted = {"AWAITING_SIGNATURE": OPEN - carried, "COMPLETED": carried}
    if stages != wanted:
        raise RuntimeError(f"transfers are at {stages}, and must be at {wanted}")
