"""Job source: deposits on deposit addresses of an EVM chain, to sweep or to refund.

A deposit is swept once: the job's key is the transfer. A refund sends all that the address holds of
a token, so a second one finds nothing; its key counts the refunds that are done, so that a later
payment gets a new key. Both are decided under the transfer's lock, which a cancellation holds too:
the second of the two sees what the first one wrote.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
    parse_call,
    refund_call,
    refund_native_call,
    send_call,
)
from indexer.config.networks import EvmChain, Network
from indexer.errors import ConfigurationError
from indexer.transfers.read import read_transfers
from indexer.transfers.state_machine import NEEDS_SWEEP
from indexer.transfers.store import try_lock_transfers, with_interchangeable
from relay.jobs.refund_orders import NATIVE, RefundOrder, is_ordered, open_orders, reject_order
from relay.nonces import JobName, RelayJob
from relay.senders.evm_signing import ContractCall, read_call
from warehouse_schema.identifiers import BaseUnits, EvmAddress

logger = logging.getLogger(__name__)

_LIMIT = 100
_BALANCE = keccak(text="balanceOf(address)")[:4]

# Jobs with an open slot come first, because their slots must be closed; then deposits; then
# refunds, in random order, so that refunds that cannot succeed (to an account that a token's issuer
# froze) delay no others. Deposits of another operator are included once anyone may refund them.
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
        WHERE source_chain = :chain AND stage = :needs_sweep
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
    LIMIT :limit
""")

_SLOTS = text("""
    SELECT subject, purpose, key, outcome
    FROM relay.slots
    WHERE chain = :chain AND subject = ANY(:transfers) AND purpose IN ('sweep', 'refund')
      AND (outcome IS NULL OR outcome = 'confirmed')
""")


class EvmDeposits:
    """Deposits of a chain that one account of the relay may sweep or refund."""

    def __init__(self, network: Network, chain: EvmChain, account: EvmAddress) -> None:
        self._network, self._chain, self._account = network, chain, account
        self._logged: set[str] = set()
        """Transfers with a wrong address that were logged."""

    def jobs(self, conn: Connection) -> list[RelayJob[ContractCall]]:
        """Sweeps of funded deposits, and refunds."""
        orders = open_orders(conn, self._chain.id)
        bounds = {"chain": self._chain.id, "account": self._account, "release": RELEASE_AFTER}
        ordered = {"ordered": [each.transfer for each in orders], "limit": _LIMIT}
        stages = {"needs_sweep": NEEDS_SWEEP}
        rows = conn.execute(_CONCERNED, bounds | ordered | stages).all()
        transfers = {"chain": self._chain.id, "transfers": [row.id for row in rows]}
        slots: dict[str, list[Row[Any]]] = defaultdict(list)
        for slot in conn.execute(_SLOTS, transfers):
            slots[slot.subject].append(slot)
        return [job for row in rows for job in self._jobs_of(row, slots[row.id], orders)]

    def rejection(self, conn: Connection, job: RelayJob[ContractCall]) -> str | None:
        """Reason why the job must not be signed now; holds the transfer's lock until commit."""
        if job.purpose not in ("sweep", "refund"):
            return None
        together = with_interchangeable(conn, [job.subject])
        if try_lock_transfers(conn, together) != set(together):
            return "the transfer is locked by another process"
        [reading] = read_transfers(conn, self._network, [job.subject])
        if reading.illegal is not None:
            return f"the transfer's inputs are contradictory: {reading.illegal}"
        state = reading.state
        if job.purpose == "sweep":
            is_ready = state.stage == NEEDS_SWEEP
            return None if is_ready else f"the transfer is {state.stage}"
        token = _token_of(job.key)
        if is_ordered(job.key):
            return reject_order(reading.loaded.inputs, state, token)
        return None if token in {*state.goes_back} else f"nothing of {token} goes back now"

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed sweep or refund. A refund that was ordered counts for its order."""
        call = read_call(raw)
        parsed = parse_call(call.data) if call.to == self._chain.deposit_factory else None
        if parsed is None:
            return None
        transfer = parsed.transfer
        if parsed.name in ("burn", "send"):
            return JobName("sweep", transfer, transfer)
        token = parsed.token or NATIVE
        for order in open_orders(conn, self._chain.id):
            if (order.transfer, order.token) == (transfer, token):
                return JobName("refund", order.key, transfer)
        bounds = {"chain": self._chain.id, "transfers": [transfer]}
        done = [
            _token_of(slot.key)
            for slot in conn.execute(_SLOTS, bounds)
            if slot.purpose == "refund" and slot.outcome == "confirmed"
        ]
        return JobName("refund", f"{transfer}:{token}:{done.count(token)}", transfer)

    def _jobs_of(
        self, row: Row[Any], slots: Sequence[Row[Any]], orders: Iterable[RefundOrder]
    ) -> Iterator[RelayJob[ContractCall]]:
        deposit = self._deposit(row)
        if deposit is None:
            return
        has_open_sweep = any(each.purpose == "sweep" and each.outcome is None for each in slots)
        is_own = deposit.operator == self._account
        if is_own and (row.stage == NEEDS_SWEEP or has_open_sweep):
            yield self._sweep(row, deposit)
        refunds = [(_token_of(each.key), each) for each in slots if each.purpose == "refund"]
        done = [token for token, each in refunds if each.outcome == "confirmed"]
        # The key stays the same while the refund is open, and changes after it is done.
        keys = {token: f"{row.id}:{token}:{done.count(token)}" for token in row.goes_back}
        for order in orders:
            if order.transfer == row.id:
                keys.setdefault(order.token, order.key)
        keys |= {token: each.key for token, each in refunds if each.outcome is None}
        for token, key in sorted(keys.items()):
            yield self._refund(row, deposit, token, key)

    def _deposit(self, row: Row[Any]) -> Deposit | None:
        """Terms of the deposit; None, and an error in the log, when they give another address."""
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
            if address == row.deposit_address:
                return deposit
            problem = f"its terms give the address {address}"
        except (ValueError, ConfigurationError) as error:
            problem = str(error)
        if row.id not in self._logged:
            logger.error(
                "wrong address chain=%s transfer=%s: %s",
                *(self._chain.id, row.id, problem),
                extra={"transfer": row.id},
            )
            self._logged.add(row.id)
        return None

    def _sweep(self, row: Row[Any], deposit: Deposit) -> RelayJob[ContractCall]:
        """Done once the address holds nothing of the token.

        The fee limit is what remains above the promised amount, as in a payer's own call.
        """
        token = self._chain.usdc if deposit.bridge == "cctp" else self._chain.usdt0
        if token is None:
            raise ConfigurationError(f"{self._chain.id} has no token of {deposit.bridge}")
        if deposit.bridge == "cctp":
            max_fee = BaseUnits(deposit.amount - deposit.min_received)
            finality = row.finality_threshold
            call = burn_call(self._network, deposit, max_fee=max_fee, min_finality=finality)
            price = None
        else:
            call = send_call(self._network, deposit)
            price = _contract_call(message_fee_call(self._network, deposit))
        return RelayJob(
            purpose="sweep",
            key=row.id,
            subject=row.id,
            call=_contract_call(call, price),
            done_view=_balance(token, row.deposit_address),
            done_when_zero=True,
            is_bound=True,
        )

    def _refund(
        self, row: Row[Any], deposit: Deposit, token: str, key: str
    ) -> RelayJob[ContractCall]:
        """Done once the address holds nothing of the token.

        An operator's order has no view call: an unknown token may answer anything.
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
            call=_contract_call(call),
            done_view=None if is_ordered(key) else _balance(contract, row.deposit_address),
            done_when_zero=True,
            repeatable_by_others=row.is_released,
            is_bound=not row.is_released,
        )


def _token_of(key: str) -> str:
    return key.split(":")[1]


def _balance(token: EvmAddress, holder: str) -> ContractCall:
    return ContractCall(token, _BALANCE + encode(["address"], [holder]))


def _contract_call(call: FactoryCall, price: ContractCall | None = None) -> ContractCall:
    return ContractCall(call.to, call.data, price=price)
