"""What watching many Stellar accounts adds to a range: `ratio` is `range_ms_100k / range_ms_none`.

Two warehouses read the same ledgers of one node in turns. In one nothing is watched; in the other
100,000 payers are, as anybody can have them with keys that cost nothing, and 1,000 of them have a
transfer open. Each ledger has as many payments of USDC between strangers as a busy one of pubnet
(37, see `tests/golden/stellar/ledgers`). A time is the median of one range of 10 ledgers, from the
question for the head to the commit.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from sqlalchemy import Engine, insert
from stellar_sdk import StrKey
from stellar_sdk.operation import Payment

from devnet.databases import fresh_databases
from devnet.stellar.accounts import USDC
from devnet.stellar.client import DevnetClient
from devnet.world import Pace
from indexer.chains.ports import ChainReader
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, open_engine
from indexer.ingest.readers import open_reader
from tests.factories.ingesting import ingest_once
from tests.factories.started import insert_transfer, payment
from tests.system.bench.site import Site, milliseconds, print_line, site
from warehouse_schema.intake import watched_addresses

ACCOUNTS, OPEN = 100_000, 1_000
RANGES, WARM = 40, 5
LEDGERS, PAYMENTS = 10, 37
"""Of a range; of a ledger."""


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    with site(Pace()) as running:
        print_line(f"closing {(WARM + RANGES) * LEDGERS} ledgers of {PAYMENTS} payments")
        _pay_among_strangers(running)
        watching = _second_warehouse(running.settings)
        _watch(watching)
        with _warehouse(running.settings) as none, _warehouse(watching) as many:
            for turn in range(WARM + RANGES):
                # Neither always comes first, when the node has to look its ledgers up.
                for each in (none, many) if turn % 2 else (many, none):
                    each.take_range(running.settings)
    without, with_100k = (median(each.times[WARM:]) for each in (none, many))
    return {
        "range_ms_none": milliseconds(without),
        "range_ms_100k": milliseconds(with_100k),
        "ratio": round(with_100k / without, 3),
        "watched": ACCOUNTS,
        "open": OPEN,
        "ranges": RANGES,
        "ledgers_per_range": LEDGERS,
        "token_events_per_ledger": PAYMENTS,
    }


def _pay_among_strangers(running: Site) -> None:
    with DevnetClient(running.world.stellar_url) as client:
        payer = client.open_account("a stranger", usdc=10**12)
        payee = client.open_account("another stranger", usdc=1)
        pay = Payment(payee.public_key, USDC, "0.0000001")
        for _ in range((WARM + RANGES) * LEDGERS):
            client.submit(payer, [pay] * PAYMENTS)


def _second_warehouse(settings: Settings) -> Settings:
    url = database_url(settings).set(database="isthmus_watching")
    watching = replace(settings, database_url=url.render_as_string(hide_password=False))
    fresh_databases(watching)
    return watching


@dataclass(frozen=True)
class Warehouse:
    """One of the two, with a reader of its own: a reader keeps headers that it was given."""

    engine: Engine
    reader: ChainReader
    times: list[float] = field(default_factory=list)

    def take_range(self, settings: Settings) -> None:
        """Bring in the next range and note its seconds."""
        began = time.monotonic()
        progress = ingest_once(self.engine, self.reader, settings.network, max_blocks=LEDGERS)
        self.times.append(time.monotonic() - began)
        if progress is None or progress.blocks != LEDGERS:
            raise AssertionError(f"a range was not whole: {progress}")


@contextmanager
def _warehouse(settings: Settings) -> Iterator[Warehouse]:
    engine = open_engine(settings, "indexer")
    reader = open_reader(settings, settings.network.stellar)
    try:
        yield Warehouse(engine, reader)
    finally:
        reader.close()
        engine.dispose()


def _watch(settings: Settings) -> None:
    print_line(f"watching {ACCOUNTS} accounts, {OPEN} of them with an open transfer")
    stellar = settings.network.stellar
    accounts = [StrKey.encode_ed25519_public_key(n.to_bytes(32, "big")) for n in range(ACCOUNTS)]
    rows = [{"chain": stellar.id, "address": each, "reason": "a benchmark"} for each in accounts]
    engine = open_engine(settings, "api")
    with engine.begin() as conn:
        conn.execute(insert(watched_addresses), rows)
        for each in accounts[:OPEN]:
            sent = payment(
                source_chain=stellar.id,
                dest_chain=stellar.id,
                source_asset=stellar.usdc,
                dest_asset=stellar.usdc,
                source_token=stellar.usdc_contract,
                source_address=each,
            )
            insert_transfer(conn, owner=each, **sent)
    engine.dispose()
