"""`isthmus relay …`, `isthmus webhooks` and `isthmus webhook-key`; each returns its exit code."""

from dataclasses import astuple

import click

from indexer.addresses import evm_address
from indexer.cli.base import operator_command, print_line
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine, open_warehouse
from indexer.loops import stop_requested
from indexer.metrics.server import serve_loop_metrics
from relay import failures
from relay.account import TurnReport
from relay.jobs.refund_orders import NATIVE, order_refund
from relay.leases import account_processes
from relay.run import POOL_SIZE, reconcile_accounts, run_relay
from relay.settings import address_of, load_relay, load_webhooks, need_webhook_poster
from relay.status import all_health, describe, relay_problems
from relay.webhooks.run import send_webhooks
from relay.webhooks.signing import encode_public_key
from warehouse_schema.identifiers import ChainId


@click.group()
def relay() -> None:
    """Send the service's own transactions, in the one process that has keys."""


@relay.command()
@operator_command
def run() -> int:
    """Send what is owed until interrupted."""
    settings, accounts = load_relay()
    for each in accounts:
        print_line(f"{each.chain.id}: {address_of(each)}")

    def print_turn(chain: ChainId, turn: TurnReport) -> None:
        if any(astuple(turn)):
            print_line(f"{chain}: {turn}")

    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=POOL_SIZE)
    try:
        with serve_loop_metrics(settings, "ISTHMUS_METRICS_RELAY"):
            run_relay(engine, settings, accounts, should_stop=should_stop, on_turn=print_turn)
    finally:
        engine.dispose()
    return 0


@relay.command()
@operator_command
def status() -> int:
    """Show each account and its problems; 1 if there are any."""
    with open_warehouse("relay", pool_size=1) as (_, engine), engine.connect() as conn:
        for row in all_health(conn):
            print(describe(row))
        for state in account_processes(conn):
            print(state)
        problems = relay_problems(conn)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


@relay.command()
@operator_command
def reconcile() -> int:
    """After a restore: record what the chains have of our accounts and the warehouse does not."""
    settings, accounts = load_relay()
    engine = open_engine(settings, "relay", pool_size=1)
    failed = False
    try:
        for account, found in reconcile_accounts(engine, settings, accounts):
            name = f"{account.chain.id} {address_of(account)}"
            if not isinstance(found, list):
                failed = True
                print(f"{name}: not reconciled, signs nothing beyond its chain: {found}")
                continue
            for each in found:
                job = (
                    "no job of the relay"
                    if each.job is None
                    else f"{each.job.purpose} {each.job.key}"
                )
                print(f"{name}: number {each.number} is {each.outcome}: {job}, {each.tx}")
            print(f"{name}: reconciled, {len(found)} transactions recorded")
    finally:
        engine.dispose()
    return 1 if failed else 0


@relay.command()
@click.argument("chain")
@operator_command
def resume(chain: str) -> int:
    """Resume the halted accounts of a chain, and try again what failed too often there."""
    return _reset(chain, None, resumes_accounts=True)


@relay.command("reset-failures")
@click.argument("chain")
@click.argument("transfer", required=False)
@operator_command
def reset_failures(chain: str, transfer: str | None) -> int:
    """Try again what failed too often on a chain, of one transfer or of all; no halted account."""
    return _reset(chain, transfer, resumes_accounts=False)


def _reset(chain_id: str, transfer: str | None, *, resumes_accounts: bool) -> int:
    """1 if there was nothing to resume."""
    with open_warehouse("relay", pool_size=1) as (settings, engine):
        chain = settings.network.chain(ChainId(chain_id)).id
        with engine.begin() as conn:
            resumed = failures.resume_accounts(conn, chain) if resumes_accounts else 0
            reset = failures.reset_failures(conn, chain, transfer)
    print(f"{resumed} accounts resumed; {reset} failed jobs may be retried")
    return 0 if resumed or reset else 1


@relay.command()
@click.argument("transfer")
@click.option(
    "--token", help="Contract of a token, or `native`; default: the token of the transfer."
)
@operator_command
def refund(transfer: str, token: str | None) -> int:
    """Send back what a transfer's deposit address holds, however little it is."""
    if token is not None and token != NATIVE:
        try:
            token = evm_address(token)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--token") from error
    with open_warehouse("relay", pool_size=1) as (settings, engine), engine.begin() as conn:
        chain = order_refund(conn, settings.network, transfer, token)
    print(f"ordered: the relay of {chain} sends it within a day, unless it may yet be carried on")
    return 0


@click.command()
@operator_command
def webhooks() -> int:
    """Send webhooks until interrupted."""
    settings, sender = load_webhooks()
    for key in sender.keys:
        print_line(f"webhooks are signed by {encode_public_key(key)}")
    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=1)
    try:
        with serve_loop_metrics(settings, "ISTHMUS_METRICS_WEBHOOKS"):
            send_webhooks(engine, sender, should_stop=should_stop, on_progress=print_line)
    finally:
        engine.dispose()
    return 0


@click.command()
@operator_command
def webhook_key() -> int:
    """Print the public keys that webhooks are verified with, a line each."""
    network = load_settings(needs_database=False).network
    for key in need_webhook_poster(network).keys:
        print(encode_public_key(key))
    return 0
