"""`isthmus clear`, `quarantine`, `repair`, `rebuild` and `forget`."""

import sys
from contextlib import ExitStack, closing

from indexer.cli.backfill import Bar
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.decode.build import decoder_build
from indexer.facts import quarantine
from indexer.facts.alarms import clear_alarms_about
from indexer.ingest.gap_repair import repair_gaps
from indexer.ingest.quarantine import retry
from indexer.ingest.readers import open_history, open_reader
from indexer.ingest.rebuild import rebuild
from indexer.ingest.retention import delete_old_rows
from warehouse_schema.identifiers import ChainId


def clear_alarms(chain_id: str, subject: str) -> int:
    """Clear the alarms about a subject; 1 if there is none."""
    settings = load_settings()
    chain = settings.network.chain(ChainId(chain_id))
    with open_engine(settings, "indexer").begin() as conn:
        cleared = clear_alarms_about(conn, chain.id, subject)
    print(f"{cleared} alarms cleared")
    return 0 if cleared else 1


def list_quarantine(*, retries: bool) -> int:
    """List ledgers in quarantine, after decoding them again if asked; 1 if there are any."""
    settings = load_settings()
    engine, chain = open_engine(settings, "indexer"), settings.network.stellar
    if retries:
        with ExitStack() as stack:
            reader = None
            if settings.nodes[chain.id]:
                reader = stack.enter_context(closing(open_reader(settings, chain)))
            with engine.connect() as conn:
                ledgers = quarantine.list_ledgers(conn, chain.id)
            for attempt in retry(engine, settings.network, ledgers, reader):
                print(attempt, flush=True)
    with engine.connect() as conn:
        remaining = quarantine.list_ledgers(conn)
    for ledger in remaining:
        print(ledger)
    print(f"{len(remaining)} in quarantine; this build is {decoder_build()}")
    return 1 if remaining else 0


def repair() -> int:
    """Read ledgers again where providers' events have gaps; 1 if a gap is left."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    try:
        with (
            closing(open_history(settings, settings.network.stellar)) as reader,
            Bar(sys.stdout) as bar,
        ):
            healing = repair_gaps(engine, reader, settings.network, bar)
    finally:
        engine.dispose()
    print(healing)
    return 1 if healing.remaining else 0


def forget() -> int:
    """Delete old outbox events and unused quotes."""
    engine = open_engine(load_settings(), "indexer")
    try:
        with engine.begin() as conn:
            deleted = delete_old_rows(conn)
    finally:
        engine.dispose()
    print(f"forgotten: {deleted.events} events, {deleted.quotes} quotes")
    return 0


def rebuild_projections() -> int:
    """Rebuild the projections from the facts."""
    settings = load_settings()
    print(rebuild(open_engine(settings, "indexer"), settings.network))
    return 0
