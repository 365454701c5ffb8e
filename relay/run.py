"""The relay's loop: a thread for each account, and a session of Postgres that holds its lock."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

from sqlalchemy import Connection, Engine
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_tx import view_tx
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import EvmChain, Network, StellarChain
from indexer.config.settings import Settings
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError
from indexer.loops import pause, pause_on_outage
from relay import store
from relay.account import AccountRelay, JobSource, TurnReport
from relay.jobs.cctp_deliveries import EvmDeliveries, StellarDeliveries
from relay.jobs.deposits import EvmDeposits
from relay.jobs.oft_deliveries import OftDeliveries
from relay.jobs.onboardings import SponsorRelay, SponsorSender
from relay.jobs.recipients import Recipients, mint_check, trustline_check
from relay.jobs.sources import JobSources
from relay.jobs.submissions import Submitter
from relay.keys import evm_address
from relay.senders.evm import EvmSender
from relay.senders.evm_signing import ContractCall
from relay.senders.stellar import StellarSender
from relay.senders.stellar_signing import Invocation
from relay.settings import EvmAccount, RelayAccount, SponsorAccount, StellarAccount, address_of
from warehouse_schema.identifiers import ChainId, EvmAddress, StellarAddress

logger = logging.getLogger(__name__)

Report = Callable[[ChainId, TurnReport], None]

TURN_SECONDS = 1.0
NODE_SECONDS = 10.0
"""For each piece of a node's answer: nobody waits for the relay as one waits for the api."""
_MOMENT_SECONDS = 0.2
_AGAIN_SECONDS = 5.0
"""After a turn that a node or the warehouse made impossible."""
_UNFIT_SECONDS = 60.0
"""After one that no node is fit for: a person has to mend that."""


def run_relay(
    engine: Engine,
    settings: Settings,
    accounts: Sequence[RelayAccount],
    *,
    should_stop: Callable[[], bool],
    on_turn: Report,
) -> None:
    """Send from these accounts until `should_stop` says so.

    `on_turn` is called in this thread. Failing nodes and a lost warehouse are waited for. Raises
    `ConfigurationError` without an account, `FollowerConflict` when another process signs for one
    of them; what else goes wrong ends all of them.
    """
    if not accounts:
        raise ConfigurationError("no chain has a key (ISTHMUS_RELAY_KEY_…): nothing to relay")
    ended = threading.Event()
    told: SimpleQueue[tuple[ChainId, TurnReport]] = SimpleQueue()

    def is_over() -> bool:
        return ended.is_set() or should_stop()

    senders = _senders(settings, accounts)
    with ThreadPoolExecutor(len(senders), thread_name_prefix="relay") as pool:
        running = [pool.submit(_send_by, engine, each, is_over, told) for each in senders]
        try:
            while not any(each.done() for each in running):
                _pass_on(told, on_turn)
        finally:
            ended.set()
        wait(running)
        _pass_on(told, on_turn)
        for each in running:
            each.result()


def _pass_on(told: "SimpleQueue[tuple[ChainId, TurnReport]]", on_turn: Report) -> None:
    """Whatever was told within a moment, in the caller's own thread."""
    timeout = _MOMENT_SECONDS
    try:
        while True:
            on_turn(*told.get(timeout=timeout))
            timeout = 0.0
    except Empty:
        return


class AccountWorker(Protocol):
    """What sends something, turn by turn, under a lock of its own."""

    @property
    def account(self) -> store.AccountId:
        """Names the lock."""
        ...

    def turn(self, conn: Connection) -> TurnReport | None:
        """Bring everything as far as it goes now; None of what sends nothing."""
        ...

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """Say that no turn is possible, and why."""
        ...


Opens: TypeAlias = Callable[[], AbstractContextManager[AccountWorker]]


def session_count(accounts: Sequence[RelayAccount]) -> int:
    """Sessions of Postgres that these accounts take: one each, and one to look at recipients of
    each chain; on Stellar one more for what owners signed."""
    evm = sum(isinstance(each, EvmAccount) for each in accounts)
    return len(accounts) + evm + 2 * any(isinstance(each, StellarAccount) for each in accounts)


def _senders(settings: Settings, accounts: Sequence[RelayAccount]) -> list[Opens]:
    senders: list[Opens] = [partial(_opened, settings, each) for each in accounts]
    evm = [each for each in accounts if isinstance(each, EvmAccount)]
    senders += [partial(_evm_recipients, settings, each) for each in evm]
    payer = next((each for each in accounts if isinstance(each, StellarAccount)), None)
    if payer is None:
        return senders
    return [*senders, partial(_submitter, settings, payer), partial(_recipients, settings, payer)]


def _send_by(
    engine: Engine,
    opens: Opens,
    should_stop: Callable[[], bool],
    told: "SimpleQueue[tuple[ChainId, TurnReport]]",
) -> None:
    with opens() as sender:
        while not should_stop():
            with (
                pause_on_outage(f"relay {sender.account.chain}", _AGAIN_SECONDS, should_stop),
                store.account_session(engine, sender.account) as conn,
            ):
                _take_turns(conn, sender, should_stop, told)


@contextmanager
def _opened(settings: Settings, account: RelayAccount) -> Iterator[AccountWorker]:
    urls = settings.nodes[account.chain.id]
    if isinstance(account, EvmAccount):
        with closing(EvmAccountNodes(account.chain, urls, timeout=NODE_SECONDS)) as nodes:
            evm = EvmSender(account.chain, nodes, account.key)
            owed = evm_jobs(settings.network, account.chain, evm_address(account.key))
            yield AccountRelay(evm, owed, account.limits, time.monotonic)
        return
    with closing(_stellar_nodes(settings, account)) as nodes_of_stellar:
        if isinstance(account, SponsorAccount):
            yield sponsor_relay(account, nodes_of_stellar)
            return
        stellar = StellarSender(account.chain, nodes_of_stellar, account.key)
        ledger = stellar_jobs(account.chain, address_of(account))
        yield AccountRelay(stellar, ledger, account.limits, time.monotonic)


def evm_jobs(network: Network, chain: EvmChain, account: EvmAddress) -> JobSource[ContractCall]:
    """What is owed on an EVM chain, where there is a factory by deposit addresses as well."""
    deliveries = EvmDeliveries(chain)
    if chain.deposit_factory is None:
        return deliveries
    return JobSources(deliveries, EvmDeposits(network, chain, account))


def stellar_jobs(chain: StellarChain, account: str) -> JobSource[Invocation]:
    """What is owed on Stellar, where USDT0 comes to it of that as well."""
    deliveries = StellarDeliveries(chain)
    if chain.oft is None or chain.lz_endpoint is None:
        return deliveries
    return JobSources(deliveries, OftDeliveries(chain, StellarAddress(account)))


def sponsor_relay(account: SponsorAccount, nodes: StellarAccountNodes) -> SponsorRelay:
    """An account that opens trustlines."""
    wire = SponsorSender(account.chain, nodes, account.key)
    return SponsorRelay(wire, account.limits, account.bounds, time.monotonic)


@contextmanager
def _submitter(settings: Settings, payer: StellarAccount) -> Iterator[AccountWorker]:
    with closing(_stellar_nodes(settings, payer)) as nodes:
        yield Submitter(payer.chain, nodes, payer.key, payer.limits, time.monotonic)


@contextmanager
def _recipients(settings: Settings, payer: StellarAccount) -> Iterator[AccountWorker]:
    with closing(_stellar_nodes(settings, payer)) as nodes:

        def view(question: Operation) -> bytes:
            return nodes.simulate(view_tx(payer.chain.passphrase, question).envelope).value

        look = trustline_check(payer.chain, nodes, view)
        yield Recipients(payer.chain.id, look, time.monotonic)


@contextmanager
def _evm_recipients(settings: Settings, account: EvmAccount) -> Iterator[AccountWorker]:
    chain = account.chain
    urls = settings.nodes[chain.id]
    with closing(EvmAccountNodes(chain, urls, timeout=NODE_SECONDS)) as nodes:
        yield Recipients(chain.id, mint_check(chain, nodes.call_uint), time.monotonic)


def _stellar_nodes(
    settings: Settings, account: StellarAccount | SponsorAccount
) -> StellarAccountNodes:
    urls = settings.nodes[account.chain.id]
    return StellarAccountNodes(account.chain, urls, timeout=NODE_SECONDS)


def _take_turns(
    conn: Connection,
    relay: AccountWorker,
    should_stop: Callable[[], bool],
    told: "SimpleQueue[tuple[ChainId, TurnReport]]",
) -> None:
    while not should_stop():
        try:
            turn = relay.turn(conn)
            if turn is not None:
                told.put((relay.account.chain, turn))
            seconds = TURN_SECONDS
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("no turn relay=%s: %s", relay.account.chain, error)
            relay.tell_unwell(conn, str(error))
            is_unfit = isinstance(error, PermanentChainError)
            seconds = _UNFIT_SECONDS if is_unfit else _AGAIN_SECONDS
        pause(seconds, should_stop)
