"""The command `isthmus`. Commands return their exit code: 0, 1 for a finding or an error, 2 for a
wrong call or setting.

Imports are inside of the functions: a start imports what its command needs, and no process but the
relay's imports what reads the relay's keys.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path

import click

from indexer.cli.base import LazyCommand, LazyGroup, operator_command

OTHER_PACKAGES = {
    "relay": LazyCommand("relay.cli:relay", "Send the service's own transactions."),
    "webhooks": LazyCommand("relay.cli:webhooks", "Send webhooks until interrupted."),
    "webhook-key": LazyCommand("relay.cli:webhook_key", "Print the webhooks' public key."),
    "api": LazyCommand("api.cli:api", "Serve the API until interrupted."),
    "page": LazyCommand("pipelines.page.cli:page", "Serve Dagster's page behind its guard."),
    "migrate": LazyCommand("warehouse_schema.cli:migrate", "Bring the database up to date."),
    "database": LazyCommand("warehouse_schema.cli:database", "Run the embedded Postgres."),
    "demo": LazyCommand("devnet.cli:demo", "Run the whole system on local chains."),
    "faucet": LazyCommand("devnet.cli:faucet", "Pay test money on the demo's chains."),
}
_INTERRUPTED = 130


@click.group(cls=LazyGroup, lazy=OTHER_PACKAGES)
def isthmus() -> None:
    """Stablecoin transfers between EVM chains and Stellar."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        outcome: int | None = isthmus.main(arguments, prog_name="isthmus", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _INTERRUPTED
    return outcome or 0


def height_range(command: Callable[..., int]) -> Callable[..., int]:
    """Options `--chain`, `--from` and `--to` of a command about past blocks or ledgers."""
    for name, which in (("to", "last"), ("from", "first")):
        command = click.option(
            f"--{name}",
            which,
            required=True,
            type=click.IntRange(min=0),
            metavar="HEIGHT",
            help=f"{which.capitalize()} block or ledger, included.",
        )(command)
    return click.option("--chain", required=True, help="CAIP-2 id, such as eip155:1.")(command)


def day_range(command: Callable[..., int]) -> Callable[..., int]:
    """Options `--from` and `--to` of a command about days."""

    def as_day(_: click.Context, __: click.Parameter, value: datetime | None) -> date | None:
        return None if value is None else value.date()

    for name, which in (("to", "last"), ("from", "first")):
        command = click.option(
            f"--{name}",
            which,
            type=click.DateTime(["%Y-%m-%d"]),
            callback=as_day,
            metavar="DAY",
            help=f"{which.capitalize()} day, such as 2026-11-21; without both: days that are due.",
        )(command)
    return command


@isthmus.command()
@click.argument("chain")
@operator_command
def follow(chain: str) -> int:
    """Follow one chain (CAIP-2 id, such as eip155:1) until interrupted."""
    from indexer.cli import processes

    return processes.follow_chain(chain)


@isthmus.command()
@operator_command
def attest() -> int:
    """Ask the attestation service about open burns until interrupted."""
    from indexer.cli import processes

    return processes.attest()


@isthmus.command()
@operator_command
def transfers() -> int:
    """Apply what clients write to transfers, and let them expire, until interrupted."""
    from indexer.cli import processes

    return processes.keep_transfers()


@isthmus.command()
@operator_command
def status() -> int:
    """Show each chain's height, lag and alarms; 1 if an operator is needed."""
    from indexer.cli import checks

    return checks.status()


@isthmus.command()
@operator_command
def check() -> int:
    """Compare facts and projections with a rebuild; 1 on a difference."""
    from indexer.cli import checks

    return checks.check()


@isthmus.command()
@operator_command
def reconcile() -> int:
    """Check that the money adds up, and store the result; 1 on a finding."""
    from indexer.cli import checks

    return checks.reconcile_money()


@isthmus.command()
@click.argument("chain")
@click.argument("subject")
@operator_command
def clear(chain: str, subject: str) -> int:
    """Clear the alarms about a subject, as `status` prints it, once its cause is fixed."""
    from indexer.cli import maintenance

    return maintenance.clear_alarms(chain, subject)


@isthmus.command()
@click.option(
    "--retry", "retries", is_flag=True, help="Decode them again, from kept bytes or their source."
)
@operator_command
def quarantine(*, retries: bool) -> int:
    """List ledgers that could not be decoded; 1 if there are any."""
    from indexer.cli import maintenance

    return maintenance.list_quarantine(retries=retries)


@isthmus.command()
@operator_command
def repair() -> int:
    """Read ledgers again where providers' events have gaps; 1 if a gap is left."""
    from indexer.cli import maintenance

    return maintenance.repair()


@isthmus.command()
@operator_command
def rebuild() -> int:
    """Rebuild the projections from the facts."""
    from indexer.cli import maintenance

    return maintenance.rebuild_projections()


@isthmus.command()
@operator_command
def forget() -> int:
    """Delete old outbox events and unused quotes."""
    from indexer.cli import maintenance

    return maintenance.forget()


@isthmus.command()
@height_range
@operator_command
def backfill(chain: str, first: int, last: int) -> int:
    """Read a past range of a chain, or read it again."""
    from indexer.cli import backfill as command

    return command.run(chain, first, last)


@isthmus.command()
@height_range
@click.option(
    "--node",
    "nodes",
    required=True,
    multiple=True,
    help="URL of a node of another operator than the followed one; several are asked in turn.",
)
@operator_command
def rescan(chain: str, first: int, last: int, nodes: tuple[str, ...]) -> int:
    """Compare a past range with another operator's node; 1 on a difference."""
    from indexer.cli import rescan as command

    return command.run(chain, first, last, nodes)


@isthmus.command()
@day_range
@operator_command
def days(first: date | None, last: date | None) -> int:
    """Compute daily figures and compare them with the views; 1 on a difference."""
    from indexer.cli import days as command

    return command.compute_days(first, last)


@isthmus.command()
@day_range
@click.option(
    "--to-folder", "folder", type=click.Path(path_type=Path), help="Default: ISTHMUS_EXPORT."
)
@click.option("--only", type=click.Choice(["facts", "figures"]), help="One of the two sets alone.")
@operator_command
def export(first: date | None, last: date | None, folder: Path | None, only: str | None) -> int:
    """Write days as Parquet files."""
    from indexer.cli import days as command

    return command.export_days(first, last, folder, only)


@isthmus.group()
def redecode() -> None:
    """Decode raw facts again beside the live tables, compare, swap."""


@redecode.command()
@click.argument("chains", nargs=-1, required=True)
@operator_command
def start(chains: tuple[str, ...]) -> int:
    """Create the tables beside the live ones (as database owner)."""
    from indexer.cli import redecode as command

    return command.start(chains)


@redecode.command()
@operator_command
def fill() -> int:
    """Decode raw facts again; continues where it stopped."""
    from indexer.cli import redecode as command

    return command.fill()


@redecode.command("check")
@operator_command
def check_redecode() -> int:
    """Show what a swap would change."""
    from indexer.cli import redecode as command

    return command.check()


@redecode.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@operator_command
def swap(*, yes: bool) -> int:
    """Check, ask, and put the new tables in the live ones' place."""
    from indexer.cli import redecode as command

    return command.swap(asks=not yes)


@redecode.command()
@operator_command
def abandon() -> int:
    """Drop what start created (as database owner)."""
    from indexer.cli import redecode as command

    return command.abandon()
