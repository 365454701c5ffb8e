"""The relay's loop: a thread for each account, and a session of Postgres that holds its lock."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from indexer.chains.evm_accounts import EvmAccountNodes
from indexer.errors import PermanentChainError, RetryableChainError
from indexer.relay import store
from indexer.relay.deliveries import EvmDeliveries
from indexer.relay.evm import EvmRelay, Turn
from indexer.relay.settings import EvmRelaySettings
from indexer.settings import Settings
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

Report = Callable[[ChainId, Turn], None]

TURN_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
"""After a turn that a node or the warehouse made impossible."""
_UNFIT_SECONDS = 60.0
"""After one that no node is fit for: a person has to mend that."""


def run_relay(
    engine: Engine,
    settings: Settings,
    chains: Sequence[EvmRelaySettings],
    *,
    should_stop: Callable[[], bool],
    on_turn: Report,
) -> None:
    """Relay to these chains until `should_stop` says so.

    Failing nodes and a lost warehouse are waited for. Raises `FollowerConflict` when another
    process signs for one of the accounts; what else goes wrong ends all of them.
    """
    ended = threading.Event()

    def is_over() -> bool:
        return ended.is_set() or should_stop()

    with ThreadPoolExecutor(max(1, len(chains)), thread_name_prefix="relay") as pool:
        running = [
            pool.submit(_relay_to, engine, settings, each, is_over, on_turn) for each in chains
        ]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        ended.set()
        for each in done:
            each.result()


def _relay_to(
    engine: Engine,
    settings: Settings,
    chain: EvmRelaySettings,
    should_stop: Callable[[], bool],
    on_turn: Report,
) -> None:
    urls = settings.nodes[chain.chain.id]
    with closing(EvmAccountNodes(chain.chain, urls)) as nodes:
        ledger = EvmDeliveries(chain.chain)
        relay = EvmRelay(chain.chain, nodes, chain.key, chain.limits, ledger)
        while not should_stop():
            try:
                with store.writer(engine, relay.account) as conn:
                    _take_turns(conn, relay, should_stop, on_turn)
            except OperationalError as error:
                # The lock went with the session: it is taken again before anything is signed.
                logger.warning("warehouse lost relay=%s: %s", chain.chain.id, error.orig)
                _pause(_AGAIN_SECONDS, should_stop)


def _take_turns(
    conn: Connection, relay: EvmRelay, should_stop: Callable[[], bool], on_turn: Report
) -> None:
    while not should_stop():
        try:
            on_turn(relay.account.chain, relay.turn(conn))
            pause = TURN_SECONDS
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("no turn relay=%s: %s", relay.account.chain, error)
            relay.tell_unwell(conn, str(error))
            is_unfit = isinstance(error, PermanentChainError)
            pause = _UNFIT_SECONDS if is_unfit else _AGAIN_SECONDS
        _pause(pause, should_stop)


def _pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not should_stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.5))
