"""`python -m indexer heal`: close the gaps in providers' numbers."""

import argparse
import sys
from contextlib import closing

from indexer.cli.backfill import Bar
from indexer.config.settings import Settings
from indexer.config.warehouse import open_engine
from indexer.ingest.readers import open_history


def add_repair(parser: argparse.ArgumentParser) -> None:
    """What runs it."""
    parser.set_defaults(run=_run)


def _run(settings: Settings, _: argparse.Namespace) -> int:
    # Here, not above: it reads columns, and every other command would wait for that import.
    from indexer.ingest.gap_repair import repair_gaps

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
    return 1 if healing.left else 0
