"""`python -m indexer heal`: close the gaps in providers' numbers."""

import argparse
import sys
from contextlib import closing

from indexer.backfill_command import Bar
from indexer.readers import open_history
from indexer.settings import Settings
from indexer.warehouse import open_engine


def add_heal(parser: argparse.ArgumentParser) -> None:
    """What runs it."""
    parser.set_defaults(run=_run)


def _run(settings: Settings, _: argparse.Namespace) -> int:
    # Here, not above: it reads columns, and every other command would wait for that import.
    from indexer.heal import heal

    engine = open_engine(settings, "indexer")
    try:
        with (
            closing(open_history(settings, settings.network.stellar)) as reader,
            Bar(sys.stdout) as bar,
        ):
            healing = heal(engine, reader, settings.network, bar)
    finally:
        engine.dispose()
    print(healing)
    return 1 if healing.left else 0
