"""Deposit addresses on a local chain, with a warehouse that ingests it."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from eth_account.signers.local import LocalAccount
from sqlalchemy import func, insert, select

from devnet.evm import dev_account
from indexer.bridges.deposit_address.factory import (
    Deposit,
    deposit_address,
    deposit_of_transfer,
    refund_call,
)
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import Network, load_network
from indexer.config.routes import Mechanism
from indexer.decode.evm import event_topics
from indexer.facts.cursors import read_cursor, record_finality
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.store import is_behind, refold_final, refold_transfers
from relay.account import AccountRelay
from relay.jobs.refund_orders import order_refund
from relay.keys import EvmKey
from relay.limits import SpendLimits
from relay.run import evm_jobs
from relay.senders.evm import EvmSender
from relay.status import relay_problems
from tests.factories.ingesting import ingest_once
from tests.factories.intake import ask, cancel
from tests.relay.conftest import LIMITS, OPERATOR, RELAYER_KEY, Stand, opened_key
from warehouse_schema.facts import expiries
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    EvmAddress,
    Height,
    StellarAddress,
    UnixSeconds,
)
from warehouse_schema.intake import transfers, watched_addresses
from warehouse_schema.projections import transfer_states
from warehouse_schema.relay import attempts, slots

AMOUNT, ARRIVES, LEAST = 20_000_000, 19_990_000, 1_000_000
OWNER = StellarAddress("GB54KUSW2OO5IY3LXJGIR54Q4ZIGQMQ6FIE7QZENCFCL3E5GYXAKQY7L")
PAYER = dev_account(1)


NETWORK = load_network("devnet")


@dataclass(frozen=True)
class Paid:
    """A transfer with a deposit address."""

    terms: TransferTerms
    address: EvmAddress
    deposit: Deposit


class DepositStand(Stand):
    """Ingests the chain and folds the transfers."""

    network: Network = NETWORK

    @property
    def usdc(self) -> EvmAddress:
        return EvmAddress(self.devnet.addresses.usdc)

    @property
    def usdt0(self) -> EvmAddress:
        return EvmAddress(self.devnet.addresses.usdt0)

    def deposit(
        self, mechanism: Mechanism = "cctp", operator: str = OPERATOR, days_ago: int = 0
    ) -> Paid:
        """A transfer of 20, of which 19.99 arrive, with a watched address."""
        now, transfer = int(time.time()) - 86_400 * days_ago, uuid4().hex
        terms = TransferTerms(
            id=transfer,
            owner=OWNER,
            mechanism=mechanism,
            source_chain=self.chain.id,
            source_address=Address(PAYER.address.lower()),
            source_token=Address(self.usdc if mechanism == "cctp" else self.usdt0),
            dest_chain=self.network.stellar.id,
            dest_address=Address(OWNER),
            amount_in=BaseUnits(AMOUNT),
            min_refund=BaseUnits(LEAST),
            deposit_address=None,
            started_at=UnixSeconds(now),
            expires_at=UnixSeconds(now + 1800),
        )
        with self.engine.begin() as conn:
            ask(conn, terms)
            deposit = self._agreed(conn, terms, operator)
            address = deposit_address(self.network, deposit)
            self._let_pay(conn, transfer, address, operator)
        self.fold()
        return Paid(terms, address, deposit)

    def _agreed(self, conn: Any, terms: TransferTerms, operator: str) -> Deposit:
        conn.exec_driver_sql(
            "UPDATE intake.quotes SET amount_out = %s, finality_threshold = 1000, "
            "funding_mode = 'deposit_address'",
            (ARRIVES * 10,),
        )
        expires = conn.scalar(select(transfers.c.expires_at).where(transfers.c.id == terms.id))
        return deposit_of_transfer(
            transfer=terms.id,
            chain=terms.source_chain,
            mechanism=terms.mechanism,
            source_address=terms.source_address,
            dest_address=terms.dest_address,
            amount_in=AMOUNT,
            amount_out=ARRIVES * 10,
            operator=operator,
            expires_at=expires,
        )

    def _let_pay(self, conn: Any, transfer: str, address: str, operator: str) -> None:
        conn.execute(
            transfers.update()
            .where(transfers.c.id == transfer)
            .values(deposit_address=address, deposit_operator=operator)
        )
        row = {"chain": self.chain.id, "address": address, "reason": "a test"}
        conn.execute(insert(watched_addresses).values(row))

    def pay(self, paid: Paid, amount: int = AMOUNT, token: str | None = None) -> None:
        """Mint to the address and ingest."""
        is_usdc = (token or paid.terms.source_token) == self.usdc
        faucet = self.devnet.faucet_usdc if is_usdc else self.devnet.faucet_usdt0
        faucet(paid.address, amount)
        self.ingest(final=0)

    def refund_as(self, account: LocalAccount, paid: Paid) -> None:
        """As another account."""
        call = refund_call(self.network, paid.deposit, EvmAddress(paid.terms.source_token))
        self.devnet.send(account, call.to, call.data)

    def cancel(self, paid: Paid) -> None:
        with self.engine.begin() as conn:
            cancel(conn, paid.terms, int(time.time()))
        self.fold()

    def expire(self, paid: Paid) -> None:
        with self.engine.begin() as conn:
            conn.execute(insert(expiries).values(transfer=paid.terms.id))
        self.fold(paid.terms.id)

    def ingest(self, final: int | None = None) -> None:
        """Ingest as the follower and the keeper do; `final` defaults to the head."""
        self._settle()
        with closing(
            EvmReader(self.network.evm[0], [self.url], event_topics, timeout=30.0)
        ) as reader:
            while ingest_once(self.engine, reader, self.network) is not None:
                pass
        with self.engine.begin() as conn:
            cursor = read_cursor(conn, self.chain.id)
            assert cursor is not None
            height = cursor.height if final is None else Height(final)
            record_finality(conn, cursor.finalized(safe=height, final=height))
            refold_final(conn, self.network, self.chain.id)
        self.fold()

    def fold(self, *ids: str) -> None:
        """Refold these transfers, and all whose inputs have changed."""
        behind = (
            select(transfers.c.id)
            .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
            .where(is_behind())
        )
        with self.engine.begin() as conn:
            refold_transfers(conn, self.network, {*ids, *conn.scalars(behind)})

    def relay(
        self,
        *,
        nodes: type[EvmAccountNodes] = EvmAccountNodes,
        limits: SpendLimits = LIMITS,
        urls: Sequence[str] = (),
        key: EvmKey | str = RELAYER_KEY,
        is_draining: bool = False,
    ) -> AccountRelay[Any]:
        account_nodes = nodes(self.chain, urls or [self.url], timeout=30.0)
        opened = self.stack.enter_context(closing(account_nodes))
        sender = EvmSender(self.chain, opened, opened_key(key))
        ledger = evm_jobs(self.network, self.chain, EvmAddress(sender.account.address))
        return AccountRelay(sender, ledger, limits, time.monotonic, is_draining=is_draining)

    def settle(self, relay: AccountRelay[Any]) -> None:
        """Run turns until everything is final."""
        for _ in range(3):
            self.turns(relay)
            self.ingest()

    def held(self, paid: Paid, token: str | None = None) -> int:
        """Base units at the address."""
        return self.devnet.balance_of(token or paid.terms.source_token, paid.address)

    def returned(self, token: str) -> int:
        """Base units of the refund recipient."""
        return self.devnet.balance_of(token, PAYER.address)

    def stage(self, paid: Paid) -> str:
        self.fold()
        columns = transfer_states.c
        with self.engine.connect() as conn:
            return str(conn.scalar(select(columns.stage).where(columns.transfer == paid.terms.id)))

    def outcomes(self, paid: Paid) -> list[tuple[str, str | None]]:
        """Purpose and outcome of all its slots."""
        columns = slots.c
        query = select(columns.purpose, columns.outcome).where(columns.subject == paid.terms.id)
        with self.engine.connect() as conn:
            return [(row.purpose, row.outcome) for row in conn.execute(query.order_by("number"))]

    def order(self, paid: Paid, token: str | None = None) -> None:
        """Order a refund."""
        self.order_id(paid.terms.id, token)

    def order_id(self, transfer: str, token: str | None = None) -> None:
        with self.relay_engine.begin() as conn:
            order_refund(conn, self.network, transfer, token)

    def complaints(self) -> list[str]:
        """Problems that `status` reports."""
        with self.relay_engine.connect() as conn:
            return relay_problems(conn)

    def drop_transactions(self, paid: Paid) -> None:
        """Drop its pending transactions from the node."""
        query = select(attempts.c.tx_hash).where(attempts.c.subject == paid.terms.id)
        with self.engine.connect() as conn:
            for tx in conn.scalars(query):
                self.devnet.rpc("anvil_dropTransaction", tx)

    def attempts(self, paid: Paid) -> int:
        """Number of its signed transactions."""
        with self.engine.connect() as conn:
            query = select(func.count()).where(attempts.c.subject == paid.terms.id)
            return conn.scalar(query) or 0
