"""`python -m relay`: relay without the orchestrator, look, let go on.

python -m relay run
python -m relay status
python -m relay resume eip155:1
python -m relay resume eip155:1 0f1e2d3c4b5a49788695a4b3c2d1e0ff
python -m relay refund 0f1e2d3c4b5a49788695a4b3c2d1e0ff --token native
python -m relay webhooks
python -m relay webhook-key
"""

import argparse
import logging
import sys
from dataclasses import astuple

from sqlalchemy.exc import OperationalError

from indexer.addresses import evm_address
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import open_engine
from indexer.errors import IndexerError
from indexer.loops import stop_requested
from relay import store
from relay.account import TurnReport
from relay.jobs.refund_orders import NATIVE, order_refund
from relay.run import run_relay, session_count
from relay.settings import address_of, load_relay_settings, need_webhook_poster
from relay.status import relay_problems
from relay.webhooks.run import DeliveryCounts, send_webhooks
from relay.webhooks.signing import encode_public_key
from warehouse_schema.identifiers import ChainId


def main() -> int:
    """Run one command; 0 when all is well, 1 when something is wrong, 2 for a bad call."""
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        outcome: int = arguments.run(load_settings(), arguments)
        return outcome
    except IndexerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except OperationalError as error:
        print(f"the database of DATABASE_URL: {error.orig}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m relay", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for run, name, about in (
        (_run, "run", "send what is owed until interrupted"),
        (_status, "status", "how each account is"),
        (_resume, "resume", "let the accounts of a chain go on that stopped, and what failed"),
        (_refund, "refund", "send back what a deposit address holds, however little it is"),
        (_webhooks, "webhooks", "post to webhooks until interrupted"),
        (_webhook_key, "webhook-key", "the public key that webhooks are verified with"),
    ):
        command = commands.add_parser(name, help=about)
        command.set_defaults(run=run)
        if run is _resume:
            command.add_argument("chain", help="CAIP-2 id, such as eip155:1")
            help_ = "of this transfer alone what failed too often; no account that stopped"
            command.add_argument("transfer", nargs="?", help=help_)
        if run is _refund:
            command.add_argument("transfer", help="its id, 32 hex digits")
            help_ = "contract of a token, or native; without it the token of the transfer"
            command.add_argument("--token", type=_token, help=help_)
    return parser.parse_args()


def _token(text: str) -> str:
    return text if text == NATIVE else evm_address(text)


def _run(settings: Settings, _: argparse.Namespace) -> int:
    accounts = load_relay_settings(settings)
    for each in accounts:
        print(f"{each.chain.id}: {address_of(each)}", flush=True)
    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=max(1, session_count(accounts)))
    try:
        run_relay(engine, settings, accounts, should_stop=should_stop, on_turn=_print_turn)
    finally:
        engine.dispose()
    return 0


def _print_turn(chain: ChainId, turn: TurnReport) -> None:
    if any(astuple(turn)):
        print(f"{chain}: {turn}", flush=True)


def _status(settings: Settings, _: argparse.Namespace) -> int:
    with open_engine(settings, "relay").connect() as conn:
        for row in store.all_health(conn):
            print(
                f"{row.chain} {row.account}: balance {row.balance}, {row.spent_today} spent today, "
                f"{row.open} open, {row.seen_ago:.0f} s ago"
            )
        found = relay_problems(conn)
    for complaint in found:
        print(complaint)
    return 1 if found else 0


def _resume(settings: Settings, arguments: argparse.Namespace) -> int:
    chain = settings.network.chain(ChainId(arguments.chain)).id
    transfer = arguments.transfer
    with open_engine(settings, "relay").begin() as conn:
        mended = 0 if transfer else store.resume_accounts(conn, chain)
        tried = store.reset_failures(conn, chain, transfer)
    print(f"{mended} accounts go on; {tried} things that failed may be tried anew")
    return 0 if mended or tried else 1


def _refund(settings: Settings, arguments: argparse.Namespace) -> int:
    with open_engine(settings, "relay").begin() as conn:
        chain = order_refund(conn, settings.network, arguments.transfer, arguments.token)
    print(f"ordered: the relay of {chain} sends it within a day, unless it may yet be carried on")
    return 0


def _webhooks(settings: Settings, _: argparse.Namespace) -> int:
    poster = need_webhook_poster(settings)
    print(f"webhooks are signed by {encode_public_key(poster.key)}", flush=True)
    should_stop = stop_requested()
    engine = open_engine(settings, "relay", pool_size=1)
    try:
        send_webhooks(engine, poster, should_stop=should_stop, on_progress=_print_sent)
    finally:
        engine.dispose()
    return 0


def _print_sent(sent: DeliveryCounts) -> None:
    print(sent, flush=True)


def _webhook_key(settings: Settings, _: argparse.Namespace) -> int:
    print(encode_public_key(need_webhook_poster(settings).key))
    return 0


if __name__ == "__main__":
    sys.exit(main())
