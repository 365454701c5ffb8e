"""What deposit addresses of an EVM chain owe: the deposit on its way to its owner, or money back.

A deposit that is there is moved on once: its slot has the transfer for a key. A refund takes all
there is of a token, so a second one finds nothing; its key counts those that were done, so that
what is paid after one has another. Both are decided under the transfer's lock, where it is
cancelled as well: whoever comes second sees what the first one wrote.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from sqlalchemy import Connection, Row, text

from indexer.bridges.deposit_address.factory import (
    RELEASE_AFTER,
    Deposit,
    FactoryCall,
    burn_call,
    deposit_address,
    deposit_of_transfer,
    message_fee_call,
    refund_call,
    refund_native_call,
    send_call,
)
from indexer.config.networks import EvmChain, Network
from indexer.errors import ConfigurationError
from indexer.transfers.read import read_transfers
from indexer.transfers.store import try_lock_transfers, with_interchangeable
from relay.jobs.refund_orders import (
    NATIVE,
    RefundOrder,
    is_ordered,
    open_orders,
    reject_order,
)
from relay.nonces import RelayJob
from relay.senders.evm_signing import ContractCall
from warehouse_schema.identifiers import BaseUnits, EvmAddress

logger = logging.getLogger(__name__)

_MOST = 100
_BALANCE = keccak(text="balanceOf(address)")[:4]

# What is under way comes first, for it must be known; then deposits; then refunds, in no order, so
# that those which cannot succeed (to an account that a token's issuer froze) keep nobody waiting.
# Another account's are its own until anybody may have them refunded.
_CONCERNED = text("""
    WITH under_way AS (
        SELECT DISTINCT subject AS transfer
        FROM relay.slots
        WHERE chain = :chain AND account = :account AND outcome IS NULL
          AND purpose IN ('sweep', 'refund')
    ), concerned AS (
        SELECT transfer, 0 AS rank FROM under_way
        UNION ALL
        SELECT transfer, 1 FROM projections.transfer_states
        WHERE source_chain = :chain AND stage = 'FUNDED'
        UNION ALL
        SELECT transfer, 2 FROM projections.transfer_states
        WHERE source_chain = :chain AND goes_back <> '{}'
        UNION ALL
        SELECT transfer, 1 FROM unnest(CAST(:ordered AS text[])) AS transfer
    ), first AS (
        SELECT transfer, min(rank) AS rank FROM concerned GROUP BY transfer
    )
    SELECT t.id, t.deposit_address, t.deposit_operator, t.expires_at,
           q.mechanism, q.source_address, q.dest_address, q.amount_in, q.amount_out,
           q.finality_threshold, s.stage, s.goes_back,
           t.expires_at < clock_timestamp() - make_interval(secs => :release) AS is_released
    FROM first f
    JOIN intake.transfers t ON t.id = f.transfer
    JOIN intake.quotes q ON q.id = t.quote
    JOIN projections.transfer_states s ON s.transfer = t.id
    WHERE t.deposit_operator = :account
       OR t.expires_at < clock_timestamp() - make_interval(secs => :release)
    ORDER BY f.rank, random()
    LIMIT :most
""")

_SLOTS = text("""
    SELECT subject, purpose, key, outcome
    FROM relay.slots
    WHERE chain = :chain AND subject = ANY(:transfers) AND purpose IN ('sweep', 'refund')
      AND (outcome IS NULL OR outcome = 'done')
""")


@dataclass(frozen=True, slots=True)
class _Known:
    """What was signed for a transfer and may still take effect, and the refunds that did."""

    sweeps: bool
    under_way: Mapping[str, str]
    """Token → key of the refund that is."""
    done: tuple[str, ...]
    """Their tokens."""

    def refund_key(self, transfer: str, token: str) -> str:
        """The same for as long as the refund is under way, and another after it."""
        return self.under_way.get(token) or f"{transfer}:{token}:{self.done.count(token)}"


class EvmDeposits:
    """What the deposit addresses of a chain owe, as far as one account of ours may pay it."""

    def __init__(self, network: Network, chain: EvmChain, account: EvmAddress) -> None:
        self._network, self._chain, self._account = network, chain, account
        self._complained: set[str] = set()
        """Transfers of which the log says already why nothing is signed for them."""

    def owed(self, conn: Connection) -> list[RelayJob[ContractCall]]:
        """Deposits that wait to be moved on, and tokens that go back."""
        wanted = {"chain": self._chain.id, "account": self._account}
        orders = open_orders(conn, self._chain.id)
        bounds = {"release": RELEASE_AFTER, "most": _MOST}
        ordered = {"ordered": [each.transfer for each in orders]}
        rows = conn.execute(_CONCERNED, wanted | bounds | ordered).all()
        known = self._known(conn, [row.id for row in rows])
        return [owed for row in rows for owed in self._of_transfer(row, known[row.id], orders)]

    def objection(self, conn: Connection, owed: RelayJob[ContractCall]) -> str | None:
        """Why nothing may be signed for it as things stand, the transfer's lock held from here."""
        if owed.purpose not in ("sweep", "refund"):
            return None
        together = with_interchangeable(conn, [owed.subject])
        if try_lock_transfers(conn, together) != set(together):
            return "the transfer is being decided about by another process"
        [reading] = read_transfers(conn, self._network, [owed.subject])
        if reading.illegal is not None:
            return f"what is known of the transfer does not fit together: {reading.illegal}"
        progress = reading.state
        if owed.purpose == "sweep":
            return None if progress.stage == "FUNDED" else f"the transfer is {progress.stage}"
        token = _token_of(owed.key)
        if is_ordered(owed.key):
            return reject_order(reading.loaded.inputs, progress, token)
        return None if token in {*progress.goes_back} else f"nothing of {token} goes back now"

    def _known(self, conn: Connection, transfers: Collection[str]) -> dict[str, _Known]:
        found = conn.execute(_SLOTS, {"chain": self._chain.id, "transfers": list(transfers)}).all()
        return {transfer: _known_of(transfer, found) for transfer in transfers}

    def _of_transfer(
        self, row: Row[Any], known: _Known, orders: Iterable[RefundOrder]
    ) -> Iterator[RelayJob[ContractCall]]:
        deposit = self._deposit(row)
        if deposit is None:
            return
        is_ours = deposit.operator == self._account
        if is_ours and (row.stage == "FUNDED" or known.sweeps):
            yield self._sweep(row, deposit)
        keys = {token: known.refund_key(row.id, token) for token in row.goes_back}
        for order in orders:
            if order.transfer == row.id:
                keys.setdefault(order.token, order.key)
        for token, key in sorted((keys | dict(known.under_way)).items()):
            yield self._refund(row, deposit, token, key)

    def _deposit(self, row: Row[Any]) -> Deposit | None:
        """Its terms; None, and a word in the log, where they are not those of its address."""
        try:
            deposit = deposit_of_transfer(
                transfer=row.id,
                chain=self._chain.id,
                mechanism=row.mechanism,
                source_address=row.source_address,
                dest_address=row.dest_address,
                amount_in=row.amount_in,
                amount_out=row.amount_out,
                operator=row.deposit_operator,
                expires_at=row.expires_at,
            )
            address = deposit_address(self._network, deposit)
        except (ValueError, ConfigurationError) as error:
            self._complain(row, str(error))
            return None
        if address == row.deposit_address:
            return deposit
        self._complain(row, f"its terms are those of {address}")
        return None

    def _complain(self, row: Row[Any], why: str) -> None:
        if row.id not in self._complained:
            logger.error("not its address chain=%s transfer=%s: %s", self._chain.id, row.id, why)
            self._complained.add(row.id)

    def _sweep(self, row: Row[Any], deposit: Deposit) -> RelayJob[ContractCall]:
        """The amount, once it is there; over once the address holds nothing of its token."""
        token = self._chain.usdc if deposit.bridge == "cctp" else self._chain.usdt0
        if token is None:
            raise ConfigurationError(f"{self._chain.id} has no token of {deposit.bridge}")
        return RelayJob(
            purpose="sweep",
            key=row.id,
            subject=row.id,
            call=self._onward(row, deposit),
            is_over=_balance(token, row.deposit_address),
            is_over_at_nought=True,
        )

    def _onward(self, row: Row[Any], deposit: Deposit) -> ContractCall:
        """The most that fees may take, as a payer's own call would say it."""
        if deposit.bridge == "cctp":
            most = BaseUnits(deposit.amount - deposit.min_received)
            finality = row.finality_threshold
            return _call(
                burn_call(self._network, deposit, max_fee=most, min_finality=finality),
            )
        price = _call(message_fee_call(self._network, deposit))
        return _call(send_call(self._network, deposit), price)

    def _refund(
        self, row: Row[Any], deposit: Deposit, token: str, key: str
    ) -> RelayJob[ContractCall]:
        """All there is of it; over once there is nothing.

        Of what an operator ordered nobody is asked: a strange token may answer what it likes.
        """
        contract = EvmAddress(token)
        call = (
            refund_native_call(self._network, deposit)
            if token == NATIVE
            else refund_call(self._network, deposit, contract)
        )
        return RelayJob(
            purpose="refund",
            key=key,
            subject=row.id,
            call=_call(call),
            is_over=None if is_ordered(key) else _balance(contract, row.deposit_address),
            is_over_at_nought=True,
            is_anybodys=row.is_released,
        )


def _known_of(transfer: str, found: Collection[Row[Any]]) -> _Known:
    own = [row for row in found if row.subject == transfer]
    refunds = [row for row in own if row.purpose == "refund"]
    return _Known(
        sweeps=any(row.purpose == "sweep" and row.outcome is None for row in own),
        under_way={_token_of(row.key): row.key for row in refunds if row.outcome is None},
        done=tuple(_token_of(row.key) for row in refunds if row.outcome == "done"),
    )


def _token_of(key: str) -> str:
    return key.split(":")[1]


def _balance(token: EvmAddress, holder: str) -> ContractCall:
    return ContractCall(token, _BALANCE + encode(["address"], [holder]))


def _call(call: FactoryCall, price: ContractCall | None = None) -> ContractCall:
    return ContractCall(call.to, call.data, price=price)
