"""`python -m indexer`: follow a chain without the orchestrator, look, check, mend.

python -m indexer follow eip155:1
python -m indexer attest
python -m indexer transfers
python -m indexer status
python -m indexer clear eip155:1 SUBJECT
python -m indexer check
python -m indexer quarantine --retry
python -m indexer backfill --chain eip155:1 --from 19000000 --to 19999999
python -m indexer rescan --chain eip155:1 --from 19000000 --to 19000999 --node https://…
python -m indexer heal
python -m indexer reconcile
python -m indexer rebuild
python -m indexer forget
python -m indexer days
python -m indexer export --from 2026-11-01 --to 2026-11-21
python -m indexer revise start eip155:1
python -m indexer revise fill | check | swap | abandon
"""

import argparse
import logging
import sys
from contextlib import ExitStack, closing

from sqlalchemy.exc import OperationalError

from indexer.analytics.reconciliation import reconcile
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.cli.backfill import add_backfill
from indexer.cli.days import add_days, add_export
from indexer.cli.redecode import add_redecode
from indexer.cli.repair import add_repair
from indexer.cli.rescan import add_rescan
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import open_engine
from indexer.decode.build import decoder_build
from indexer.errors import ConfigurationError, IndexerError
from indexer.facts import quarantine
from indexer.facts.alarms import clear_alarms_about, open_alarms
from indexer.facts.backfills import unfinished_backfills
from indexer.facts.checks import alarm_lines as alarms_of
from indexer.facts.checks import block_faults
from indexer.facts.health import assess
from indexer.facts.status import ChainStatus, chain_status
from indexer.ingest.attestations import poll_attestations
from indexer.ingest.follow import follow
from indexer.ingest.quarantine import retry, retry_untried
from indexer.ingest.ranges import RangeProgress
from indexer.ingest.readers import open_reader
from indexer.ingest.rebuild import differences, rebuild
from indexer.ingest.retention import delete_old_rows
from indexer.loops import stop_requested
from indexer.transfers.keeper import run_keeper
from warehouse_schema.identifiers import ChainId


def main() -> int:
    """Run one command; 0 when all is well, 1 when something is wrong, 2 for a bad call."""
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = load_settings()
        outcome: int = arguments.run(settings, arguments)
        return outcome
    except IndexerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except OperationalError as error:
        print(f"the database of DATABASE_URL: {error.orig}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m indexer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for run, name, about in (
        (_follow, "follow", "follow one chain until interrupted"),
        (_attest, "attest", "ask the attestation service about burns under way until interrupted"),
        (_transfers, "transfers", "keep transfers up to their clients until interrupted"),
        (_status, "status", "how far each chain is, and what stands against it"),
        (_clear, "clear", "take back the alarms about a subject, once it is mended"),
        (_check, "check", "do facts join, does a refold equal what is stored"),
        (_quarantine, "quarantine", "ledgers that could not be decoded"),
        (_reconcile, "reconcile", "look whether the money adds up, and write down what was seen"),
        (_rebuild, "rebuild", "write the projections anew from the facts"),
        (_forget, "forget", "delete what owners were told long ago, and quotes nobody used"),
    ):
        command = commands.add_parser(name, help=about)
        command.set_defaults(run=run)
        if run in (_follow, _clear):
            command.add_argument("chain", help="CAIP-2 id, such as eip155:1")
        if run is _clear:
            command.add_argument("subject", help="what the alarm is about, as `status` prints it")
        if run is _quarantine:
            command.add_argument(
                "--retry",
                action="store_true",
                help="decode them again, from the bytes that are kept or from their source",
            )
    add_backfill(commands.add_parser("backfill", help="read a past range, or read it anew"))
    add_rescan(
        commands.add_parser("rescan", help="compare a past range with another operator's node")
    )
    add_repair(commands.add_parser("heal", help="read again where providers' events have gaps"))
    add_days(commands.add_parser("days", help="compute the daily figures that are due"))
    add_export(commands.add_parser("export", help="write days as Parquet files"))
    add_redecode(commands.add_parser("revise", help="bring in new decoders, or projections"))
    return parser.parse_args()


def _follow(settings: Settings, arguments: argparse.Namespace) -> int:
    should_stop = stop_requested()
    chain = settings.network.chain(ChainId(arguments.chain))
    reader = open_reader(settings, chain)
    engine = open_engine(settings, "indexer")
    try:
        retry_untried(engine, settings.network, chain.id)
        follow(
            engine, reader, settings.network, should_stop=should_stop, on_progress=_print_progress
        )
    finally:
        reader.close()
        engine.dispose()
    return 0


def _attest(settings: Settings, _: argparse.Namespace) -> int:
    network = settings.network
    if network.iris is None:
        raise ConfigurationError(f"{network.name} names no attestation service (`iris`)")
    should_stop = stop_requested()
    iris = Iris(network.iris)
    scan = None if network.lz_scan is None else LzScan(network.lz_scan)
    engine = open_engine(settings, "indexer")
    try:
        poll_attestations(
            engine,
            network,
            iris,
            scan=scan,
            should_stop=should_stop,
            on_progress=lambda progress: print(progress, flush=True),
        )
    finally:
        iris.close()
        if scan is not None:
            scan.close()
        engine.dispose()
    return 0


def _transfers(settings: Settings, _: argparse.Namespace) -> int:
    should_stop = stop_requested()
    engine = open_engine(settings, "indexer")
    try:
        run_keeper(engine, settings.network, should_stop=should_stop)
    finally:
        engine.dispose()
    return 0


def _print_progress(progress: RangeProgress) -> None:
    print(
        f"{progress.chain} at {progress.height}, {progress.lag_blocks} blocks and "
        f"{progress.lag_seconds} s behind, {progress.events} events",
        flush=True,
    )


def _status(settings: Settings, _: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    is_good = True
    for status in chain_status(engine, settings.network):
        chain = settings.network.chain(status.chain)
        if status.height is None and chain not in settings.followed:
            print(f"{status.chain}: nothing ingested, no node set")
            continue
        health = assess(chain, status)
        is_good = is_good and not health.needs_operator
        said = [] if health.is_well else [f"{health.reason}: {health.detail}"]
        print(f"{status.chain}: " + ", ".join([*_where(status), *health.warnings, *said]))
    with engine.connect() as conn:
        for alarm in open_alarms(conn):
            print(f"{alarm.kind} {alarm.chain} {alarm.subject}: {alarm.detail}")
        for backfill in unfinished_backfills(conn):
            print(
                f"{backfill.chain}: a backfill of {backfill.first} to {backfill.last} is at "
                f"{backfill.done}, folded to {backfill.folded}"
            )
    return 0 if is_good else 1


def _where(status: ChainStatus) -> list[str]:
    if status.height is None:
        return []
    return [f"at {status.height} of {status.head_height}", f"{status.lag_seconds} s behind"]


def _clear(settings: Settings, arguments: argparse.Namespace) -> int:
    chain = settings.network.chain(ChainId(arguments.chain))
    with open_engine(settings, "indexer").begin() as conn:
        cleared = clear_alarms_about(conn, chain.id, arguments.subject)
    print(f"{cleared} alarms cleared")
    return 0 if cleared else 1


def _check(settings: Settings, _: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    problems = differences(engine, settings.network)
    for chain in settings.network.chains:
        problems += block_faults(engine, chain.id) + alarms_of(engine, chain.id)
    for problem in problems:
        print(problem)
    print("no differences" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _quarantine(settings: Settings, arguments: argparse.Namespace) -> int:
    engine, chain = open_engine(settings, "indexer"), settings.network.stellar
    if arguments.retry:
        with ExitStack() as doors:
            reader = None
            if settings.nodes[chain.id]:
                reader = doors.enter_context(closing(open_reader(settings, chain)))
            with engine.connect() as conn:
                ledgers = quarantine.list_ledgers(conn, chain.id)
            for trial in retry(engine, settings.network, ledgers, reader):
                print(trial, flush=True)
    with engine.connect() as conn:
        left = quarantine.list_ledgers(conn)
    for ledger in left:
        print(ledger)
    print(f"{len(left)} in quarantine; this build is {decoder_build()}")
    return 1 if left else 0


def _reconcile(settings: Settings, _: argparse.Namespace) -> int:
    seen = reconcile(open_engine(settings, "indexer"), settings.network)
    for flow in seen.flows:
        print(
            f"{flow.mechanism} {flow.source_chain or 'elsewhere'} to "
            f"{flow.dest_chain or 'elsewhere'}: sent {flow.sent.amount}, delivered "
            f"{flow.delivered.amount}, fees {flow.fees}, on the way {flow.on_the_way.amount}, "
            f"unexplained {flow.unexplained.amount}"
        )
    for finding in seen.findings:
        print(f"{finding.check}: {finding.detail}")
    print("it adds up" if not seen.findings else f"{len(seen.findings)} findings")
    return 1 if seen.findings else 0


def _forget(settings: Settings, _: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    try:
        with engine.begin() as conn:
            gone = delete_old_rows(conn)
    finally:
        engine.dispose()
    print(f"forgotten: {gone.events} events, {gone.quotes} quotes")
    return 0


def _rebuild(settings: Settings, _: argparse.Namespace) -> int:
    report = rebuild(open_engine(settings, "indexer"), settings.network)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
