"""What `isthmus relay`, `webhooks` and `webhook-key` do; each returns its exit code."""

from dataclasses import astuple

import click

from indexer.addresses import evm_address
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.loops import stop_requested
from relay import failures
from relay.account import TurnReport
from relay.jobs.refund_orders import NATIVE, order_refund
from relay.run import POOL_SIZE, run_relay
from relay.settings import address_of, load_relay, load_webhooks, need_webhook_poster
from relay.status import all_health, relay_problems
from relay.webhooks.run import DeliveryCounts, send_webhooks
from relay.webhooks.signing import encode_public_key
from warehouse_schema.identifiers import ChainId


def run() -> int:
    """Send what is owed until interrupted."""
    settings, accounts = load_relay()
    for each in accounts:
        print(f"{each.chain.id}: {address_of(each)}", flush=True)
    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=POOL_SIZE)
    try:
        run_relay(engine, settings, accounts, should_stop=should_stop, on_turn=_print_turn)
    finally:
        engine.dispose()
    return 0


def status() -> int:
    """Print a line for each account, then problems; 1 if there are any."""
    with open_engine(load_settings(), "relay").connect() as conn:
        for row in all_health(conn):
            print(
                f"{row.chain} {row.account}: balance {row.balance}, {row.spent_today} spent today, "
                f"{row.open} open, {row.seen_ago:.0f} s ago"
            )
        problems = relay_problems(conn)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def resume(chain_id: str) -> int:
    """Resume halted accounts and reset failures of a chain; 1 if there was neither."""
    settings = load_settings()
    chain = settings.network.chain(ChainId(chain_id)).id
    with open_engine(settings, "relay").begin() as conn:
        resumed = failures.resume_accounts(conn, chain)
        reset = failures.reset_failures(conn, chain, None)
    return _print_resumed(resumed, reset)


def reset_failures(chain_id: str, transfer: str | None) -> int:
    """Reset failures of a chain, of one transfer or of all; 1 if there was none."""
    settings = load_settings()
    chain = settings.network.chain(ChainId(chain_id)).id
    with open_engine(settings, "relay").begin() as conn:
        reset = failures.reset_failures(conn, chain, transfer)
    return _print_resumed(0, reset)


def refund(transfer: str, token: str | None) -> int:
    """Order a refund. Raises `BadParameter` for a token that is no address."""
    if token is not None and token != NATIVE:
        try:
            token = evm_address(token)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--token") from error
    settings = load_settings()
    with open_engine(settings, "relay").begin() as conn:
        chain = order_refund(conn, settings.network, transfer, token)
    print(f"ordered: the relay of {chain} sends it within a day, unless it may yet be carried on")
    return 0


def webhooks() -> int:
    """Send webhooks until interrupted."""
    settings, sender = load_webhooks()
    print(f"webhooks are signed by {encode_public_key(sender.key)}", flush=True)
    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=1)
    try:
        send_webhooks(engine, sender, should_stop=should_stop, on_progress=_print_sent)
    finally:
        engine.dispose()
    return 0


def webhook_key() -> int:
    """Print the public key that webhooks are verified with; needs no database."""
    network = load_settings(needs_database=False).network
    print(encode_public_key(need_webhook_poster(network).key))
    return 0


def _print_resumed(accounts: int, reset: int) -> int:
    print(f"{accounts} accounts resumed; {reset} failed jobs may be retried")
    return 0 if accounts or reset else 1


def _print_turn(chain: ChainId, turn: TurnReport) -> None:
    if any(astuple(turn)):
        print(f"{chain}: {turn}", flush=True)


def _print_sent(sent: DeliveryCounts) -> None:
    print(sent, flush=True)
