"""The relay's loop: one thread per worker, each with a session of Postgres and its lease.

Every transaction of such a session begins with the fence (`indexer.facts.sessions`), so a worker
whose lease another process took commits nothing, and only committed bytes are broadcast.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Literal, Protocol, TypeAlias

from sqlalchemy import Connection, Engine

from indexer.actions.stellar_tx import view_tx
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import EvmChain, Network, StellarChain
from indexer.config.settings import Settings
from indexer.errors import (
    ConfigurationError,
    IndexerError,
    PermanentChainError,
    RetryableChainError,
)
from indexer.logs import log_context
from indexer.loops import pause, pause_on_outage
from indexer.metrics.catalogue import RELAY_TRANSACTIONS
from indexer.metrics.collectors import Loop, WaitReason, count, loop_time, waiting
from relay.account import AccountRelay, TurnReport
from relay.jobs.cctp_deliveries import EvmDeliveries, StellarDeliveries
from relay.jobs.deposits import EvmDeposits
from relay.jobs.oft_deliveries import OftDeliveries
from relay.jobs.onboardings import SponsorRelay, SponsorSender
from relay.jobs.recipients import Recipients, check_mint, check_trustline
from relay.jobs.sources import JobSource, JobSources
from relay.jobs.submissions import Submitter
from relay.keys import evm_address
from relay.leases import account_session, account_standby
from relay.nonces import AccountId
from relay.reconcile import Recorded
from relay.senders.evm import EvmSender
from relay.senders.evm_signing import ContractCall
from relay.senders.stellar import StellarSender
from relay.senders.stellar_signing import Invocation
from relay.settings import EvmAccount, RelayAccount, SponsorAccount, StellarAccount, address_of
from warehouse_schema.identifiers import ChainId, EvmAddress, StellarAddress

logger = logging.getLogger(__name__)

Report = Callable[[ChainId, TurnReport], None]
_Reports: TypeAlias = "SimpleQueue[tuple[ChainId, TurnReport]]"
_Role: TypeAlias = Literal["send", "check_recipients", "submit"]

POOL_SIZE = 0
"""Pool size of the relay's engine. 0 is unlimited: each worker holds a session."""
TURN_SECONDS = 1.0
NODE_SECONDS = 10.0
"""Timeout of a node, longer than the api's: no client waits for the relay."""
_FORWARD_SECONDS = 0.2
_RETRY_SECONDS = 5.0
"""After an error of a node or the warehouse."""
_LOOPS: Mapping[_Role, Loop] = {
    "send": "relay",
    "check_recipients": "relay_recipients",
    "submit": "relay_submit",
}
_IDLE: WaitReason = "idle"
_UNFIT_SECONDS = 60.0
"""When no node is fit, which a person has to fix."""


class AccountWorker(Protocol):
    """Work that runs in turns, under a lease."""

    account: AccountId
    """Name of the lease."""

    def turn(self, conn: Connection) -> TurnReport | None:
        """Advance everything as far as possible now; None from a worker that sends nothing."""
        ...

    def report_unhealthy(self, conn: Connection, error: IndexerError) -> None:
        """Write the reason why no turn is possible."""
        ...


def run_relay(
    engine: Engine,
    settings: Settings,
    accounts: Sequence[RelayAccount],
    *,
    should_stop: Callable[[], bool],
    on_turn: Report,
) -> None:
    """Run these accounts until `should_stop`.

    `on_turn` is called in this thread. Waits for failing nodes and a lost warehouse, and for each
    account as a standby while another process signs for it. Raises `ConfigurationError` without an
    account; any other error ends all of them.
    """
    if not accounts:
        raise ConfigurationError("no chain has a key (ISTHMUS_RELAY_KEY_…_FILE): nothing to relay")
    ended = threading.Event()
    reports: _Reports = SimpleQueue()
    workers = _workers(accounts)
    with ThreadPoolExecutor(len(workers), thread_name_prefix="relay") as pool:
        running = [
            pool.submit(
                _run_worker,
                *(engine, settings, account, role),
                lambda: ended.is_set() or should_stop(),
                reports,
            )
            for account, role in workers
        ]
        try:
            while not any(each.done() for each in running):
                _forward(reports, on_turn)
        finally:
            ended.set()
        wait(running)
        _forward(reports, on_turn)
        for each in running:
            each.result()


def reconcile_accounts(
    engine: Engine, settings: Settings, accounts: Sequence[RelayAccount]
) -> Iterator[tuple[RelayAccount, list[Recorded] | RetryableChainError | PermanentChainError]]:
    """Compare each account with its chain; what was recorded, or why it could not be compared.

    Raises `FollowerConflict` while a process signs for one: of an account that has to be reconciled
    the relay leaves the lease between its turns.
    """
    for account in accounts:
        with _open_worker(settings, account, "send") as worker:
            if not isinstance(worker, AccountRelay):
                raise TypeError(f"{worker.account} does not sign")
            with account_session(engine, worker.account) as conn:
                try:
                    found: list[Recorded] | RetryableChainError | PermanentChainError
                    found = worker.reconcile(conn)
                except (RetryableChainError, PermanentChainError) as error:
                    found = error
            yield account, found


def _workers(accounts: Sequence[RelayAccount]) -> list[tuple[RelayAccount, _Role]]:
    """One sender per account, one check of recipients per chain, one submitter on Stellar."""
    workers: list[tuple[RelayAccount, _Role]] = [(each, "send") for each in accounts]
    first_evm = {each.chain.id: each for each in reversed(accounts) if isinstance(each, EvmAccount)}
    workers += [(each, "check_recipients") for each in first_evm.values()]
    senders = [each for each in accounts if isinstance(each, StellarAccount)]
    payer = next((each for each in senders if not each.is_draining), None)
    if payer is not None:
        workers += [(payer, "submit"), (payer, "check_recipients")]
    return workers


def _forward(reports: _Reports, on_turn: Report) -> None:
    """Wait a moment for reports, and pass on all there are."""
    timeout = _FORWARD_SECONDS
    try:
        while True:
            on_turn(*reports.get(timeout=timeout))
            timeout = 0.0
    except Empty:
        return


def _run_worker(
    engine: Engine,
    settings: Settings,
    account: RelayAccount,
    role: _Role,
    should_stop: Callable[[], bool],
    reports: _Reports,
) -> None:
    chain = account.chain.id
    with (
        log_context(chain=chain, account=address_of(account)),
        _open_worker(settings, account, role) as worker,
    ):
        while not should_stop():
            is_unfit = False
            with (
                loop_time(_LOOPS[role], chain),
                pause_on_outage(f"relay {chain}", lambda: pause(_RETRY_SECONDS, should_stop)),
            ):
                with account_standby(engine, worker.account, should_stop) as conn:
                    while conn is not None and not (is_unfit or should_stop()):
                        is_unfit = not _take_turn(conn, worker, chain, should_stop, reports)
                if is_unfit:
                    # Without the lease: a standby's nodes may be fit, or `reconcile` may help.
                    with waiting("node"):
                        pause(_UNFIT_SECONDS, should_stop)


def _take_turn(
    conn: Connection,
    worker: AccountWorker,
    chain: ChainId,
    should_stop: Callable[[], bool],
    reports: _Reports,
) -> bool:
    """A turn and the pause after it; False, without a pause, when no turn is possible here."""
    seconds, reason = TURN_SECONDS, _IDLE
    try:
        turn = worker.turn(conn)
        if turn is not None:
            _count(chain, turn)
            reports.put((chain, turn))
            reason = "fee" if turn.unaffordable else _IDLE
    except (RetryableChainError, PermanentChainError) as error:
        logger.warning("turn failed chain=%s: %s", chain, error)
        worker.report_unhealthy(conn, error)
        if isinstance(error, PermanentChainError):
            return False
        seconds, reason = _RETRY_SECONDS, "node"
    with waiting(reason):
        pause(seconds, should_stop)
    return True


def _count(chain: ChainId, turn: TurnReport) -> None:
    refused = len(turn.refused)
    steps = {"opened": turn.opened, "sent": turn.sent, "replaced": turn.replaced}
    for event, number in {**steps, "refused": refused}.items():
        count(RELAY_TRANSACTIONS, chain, event, by=number)


@contextmanager
def _open_worker(settings: Settings, account: RelayAccount, role: _Role) -> Iterator[AccountWorker]:
    urls, clock = settings.nodes[account.chain.id], time.monotonic
    if isinstance(account, EvmAccount):
        chain = account.chain
        with closing(EvmAccountNodes(chain, urls, timeout=NODE_SECONDS)) as evm:
            if role == "check_recipients":
                yield Recipients(chain.id, partial(check_mint, chain, evm.call_uint), clock)
                return
            jobs = evm_jobs(settings.network, chain, evm_address(account.key))
            sender = EvmSender(chain, evm, account.key)
            yield AccountRelay(sender, jobs, account.limits, clock, is_draining=account.is_draining)
        return
    stellar = account.chain
    with closing(StellarAccountNodes(stellar, urls, timeout=NODE_SECONDS)) as nodes:
        if isinstance(account, SponsorAccount):
            sponsor = SponsorSender(stellar, nodes, account.key)
            yield SponsorRelay(
                sponsor, account.limits, account.bounds, clock, is_draining=account.is_draining
            )
        elif role == "submit":
            yield Submitter(stellar, nodes, account.key, account.limits, clock)
        elif role == "check_recipients":
            check = partial(
                check_trustline,
                stellar,
                nodes,
                lambda call: nodes.simulate(view_tx(stellar.passphrase, call).envelope).value,
            )
            yield Recipients(stellar.id, check, clock)
        else:
            source = stellar_jobs(stellar, address_of(account))
            yield AccountRelay(
                StellarSender(stellar, nodes, account.key),
                source,
                account.limits,
                clock,
                is_draining=account.is_draining,
            )


def evm_jobs(network: Network, chain: EvmChain, account: EvmAddress) -> JobSource[ContractCall]:
    """Jobs of an account on an EVM chain, with deposits where the chain has a factory."""
    deliveries = EvmDeliveries(chain)
    if chain.deposit_factory is None:
        return deliveries
    return JobSources(deliveries, EvmDeposits(network, chain, account))


def stellar_jobs(chain: StellarChain, account: str) -> JobSource[Invocation]:
    """Jobs of an account on Stellar, with OFT messages where the chain has the OFT."""
    deliveries = StellarDeliveries(chain)
    if chain.oft is None or chain.lz_endpoint is None:
        return deliveries
    return JobSources(deliveries, OftDeliveries(chain, StellarAddress(account)))
