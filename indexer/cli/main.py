"""The command `isthmus`. Commands return their exit code: 0, 1 for a finding or an error, 2 for a
wrong call or setting.

Imports are inside of the commands: a start imports what its command needs, and no process but the
relay's imports what reads the relay's keys.
"""

from collections.abc import Sequence

import click

from indexer.cli import checks, config, days, doctor, maintenance, processes, ranges, redecode
from indexer.cli.base import INTERRUPTED, LazyCommand, LazyGroup

OTHER_PACKAGES = {
    "relay": LazyCommand("relay.cli:relay", "Send the service's own transactions."),
    "webhooks": LazyCommand("relay.cli:webhooks", "Send webhooks until interrupted."),
    "keys": LazyCommand("relay.keys_cli:keys", "Make new keys, and replace old ones."),
    "webhook-key": LazyCommand("relay.cli:webhook_key", "Print the webhooks' public key."),
    "api": LazyCommand("api.cli:api", "Serve the API until interrupted."),
    "code-server": LazyCommand("pipelines.cli:code_server", "Hold Dagster's definitions and runs."),
    "daemon": LazyCommand("pipelines.cli:daemon", "Evaluate Dagster's sensors and schedules."),
    "worker": LazyCommand("pipelines.cli:worker", "Run steps of Dagster's jobs for Celery."),
    "step": LazyCommand("pipelines.cli:step", "Run one step, for the Kubernetes executor."),
    "page": LazyCommand("pipelines.cli:page", "Serve Dagster's page behind its guard."),
    "up": LazyCommand("pipelines.cli:up", "Run all processes of a configuration on this machine."),
    "alive": LazyCommand("pipelines.cli:alive", "Whether a process of this machine answers."),
    "migrate": LazyCommand("warehouse_schema.cli:migrate", "Bring the database up to date."),
    "database": LazyCommand("warehouse_schema.cli:database", "Run the embedded Postgres."),
    "demo": LazyCommand("devnet.cli:demo", "Run the whole system on local chains."),
    "faucet": LazyCommand("devnet.cli:faucet", "Pay test money on the demo's chains."),
}


@click.group(cls=LazyGroup, lazy=OTHER_PACKAGES)
def isthmus() -> None:
    """Stablecoin transfers between EVM chains and Stellar."""


for _command in (
    *(processes.follow, processes.attest, processes.transfers),
    *(doctor.doctor, checks.status, checks.check, checks.reconcile),
    *(maintenance.clear, maintenance.quarantine, maintenance.repair),
    *(maintenance.rebuild, maintenance.forget),
    config.config,
    *(ranges.backfill, ranges.rescan, days.days, days.export, redecode.redecode),
):
    isthmus.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        outcome: int | None = isthmus.main(arguments, prog_name="isthmus", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    return outcome or 0
