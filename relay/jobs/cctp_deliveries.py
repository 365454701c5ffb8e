"""Job source: attested CCTP messages that transfers wait for on a chain.

The relay delivers a message that carries a transfer, and an extra movement while its owner's daily
limit has room (docs/transfers.md). Other senders pay for their own delivery; anyone may deliver
any message.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic

from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak
from sqlalchemy import Connection, Row, text
from stellar_sdk import scval

from indexer.config.networks import EvmChain, StellarChain
from indexer.errors import ConfigurationError
from indexer.movements.fold import DELIVERABLE
from relay.jobs.extras import reject_extra, within_limits
from relay.nonces import C, JobName, RelayJob
from relay.senders.evm_signing import ContractCall, read_call
from relay.senders.stellar_signing import Invocation, read_invocation
from warehouse_schema.identifiers import ChainId, EvmAddress, StellarAddress

_LIMIT = 100
_RECEIVE = keccak(text="receiveMessage(bytes,bytes)")[:4]
_USED = keccak(text="usedNonces(bytes32)")[:4]

# Extras below the minimum refund are not delivered: burns of nothing with a copied transfer id
# must not cost fees.
#
# Jobs with an open slot come first, because their slots must be closed. The rest is a random
# choice: messages that can never be delivered (to a frozen recipient) stay the oldest for ever and
# would delay all others.
_QUERY = """
    WITH waiting AS (
        SELECT DISTINCT ON (p.id)
               p.sent_at, p.id, s.transfer, p.message_id AS nonce, a.message, a.attestation,
               t.owner, p.source_chain, p.amount_in
        FROM projections.movements p
        JOIN projections.transfer_states s ON s.keys @> ARRAY[p.group_key]
        JOIN intake.transfers t ON t.id = s.transfer
        JOIN intake.quotes q ON q.id = t.quote
        JOIN LATERAL (
            SELECT message, attestation
            FROM facts.cctp_attestations
            WHERE burn_key = p.group_key AND nonce = p.message_id AND verified
            ORDER BY id DESC
            LIMIT 1
        ) a ON true
        WHERE p.mechanism = 'cctp' AND p.dest_tx IS NULL
          AND p.stage = :deliverable AND p.dest_chain = :chain
          AND q.dest_chain = :chain
          AND {condition}
          AND NOT EXISTS (
              SELECT FROM relay.obstacles o WHERE o.transfer = s.transfer AND o.cleared_at IS NULL
          )
        ORDER BY p.id, s.transfer
    ), taken AS (
        SELECT w.*, o.key IS NOT NULL AS is_signed
        FROM waiting w
        LEFT JOIN relay.slots o
            ON o.chain = :chain AND o.purpose = 'deliver' AND o.key = w.nonce AND o.outcome IS NULL
        ORDER BY o.key IS NULL, random()
        LIMIT :limit
    )
    SELECT * FROM taken ORDER BY sent_at, id
"""
_AGREED = text(_QUERY.format(condition="s.movement = p.id"))
_EXTRAS = text(_QUERY.format(condition="p.id = ANY(s.extras) AND p.amount_in >= q.min_refund"))


_NONCE = slice(12, 44)
_TRANSFER = text("""
    SELECT s.transfer
    FROM projections.movements p
    JOIN projections.transfer_states s ON s.keys @> ARRAY[p.group_key]
    WHERE p.mechanism = 'cctp' AND p.dest_chain = :chain AND p.message_id = :nonce
      AND (s.movement = p.id OR p.id = ANY(s.extras))
    ORDER BY s.transfer
    LIMIT 1
""")


class _Deliveries(ABC, Generic[C]):
    """Deliveries on one chain. A job is done once the message's nonce is used by anyone."""

    def __init__(self, chain: ChainId) -> None:
        self._id = chain

    def jobs(self, conn: Connection) -> list[RelayJob[C]]:
        """Messages of transfers, then extras that limits allow; of each the oldest first."""
        bounds = {"chain": self._id, "limit": _LIMIT, "deliverable": DELIVERABLE}
        agreed = conn.execute(_AGREED, bounds).all()
        extras = within_limits(conn, conn.execute(_EXTRAS, bounds).all())
        return [self._delivery(row) for row in (*agreed, *extras)]

    def rejection(self, conn: Connection, job: RelayJob[C]) -> str | None:
        """Rejects extras beyond a daily limit only: a second delivery costs no more than a fee."""
        return reject_extra(conn, job.subject, job.key)

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed delivery; its key is the nonce in the message (CCTP v2)."""
        message = self._message_of(raw)
        if message is None:
            return None
        nonce = f"0x{message[_NONCE].hex()}"
        subject = conn.scalar(_TRANSFER, {"chain": self._id, "nonce": nonce})
        return JobName("deliver", nonce, subject or "")

    @abstractmethod
    def _message_of(self, raw: bytes) -> bytes | None: ...

    @abstractmethod
    def _delivery(self, row: Row[Any]) -> RelayJob[C]: ...


class StellarDeliveries(_Deliveries[Invocation]):
    """Deliveries on Stellar. Raises `ConfigurationError` for a chain without CCTP."""

    def __init__(self, chain: StellarChain) -> None:
        if chain.cctp_forwarder is None or chain.cctp_message_transmitter is None:
            raise ConfigurationError(f"CCTP does not lead to {chain.id}: nothing to deliver there")
        super().__init__(chain.id)
        self._forwarder: StellarAddress = chain.cctp_forwarder
        self._transmitter: StellarAddress = chain.cctp_message_transmitter

    def _message_of(self, raw: bytes) -> bytes | None:
        call = read_invocation(raw)
        if call is None or (call.contract, call.function) != (self._forwarder, "mint_and_forward"):
            return None
        return scval.from_bytes(call.arguments[0])

    def _delivery(self, row: Row[Any]) -> RelayJob[Invocation]:
        """One call mints and forwards."""
        arguments = (scval.to_bytes(row.message), scval.to_bytes(row.attestation))
        nonce = scval.to_bytes(bytes.fromhex(row.nonce[2:]))
        return RelayJob(
            purpose="deliver",
            key=row.nonce,
            subject=row.transfer,
            call=Invocation(self._forwarder, "mint_and_forward", arguments),
            done_view=Invocation(self._transmitter, "is_nonce_used", (nonce,)),
        )


class EvmDeliveries(_Deliveries[ContractCall]):
    """Deliveries on one EVM chain. Raises `ConfigurationError` for a chain without CCTP."""

    def __init__(self, chain: EvmChain) -> None:
        if chain.cctp_message_transmitter is None:
            raise ConfigurationError(f"CCTP does not lead to {chain.id}: nothing to deliver there")
        super().__init__(chain.id)
        self._transmitter: EvmAddress = chain.cctp_message_transmitter

    def _message_of(self, raw: bytes) -> bytes | None:
        call = read_call(raw)
        if call.to != self._transmitter or call.data[:4] != _RECEIVE:
            return None
        message: bytes = decode(["bytes", "bytes"], call.data[4:])[0]
        return message

    def _delivery(self, row: Row[Any]) -> RelayJob[ContractCall]:
        arguments = encode(["bytes", "bytes"], [row.message, row.attestation])
        return RelayJob(
            purpose="deliver",
            key=row.nonce,
            subject=row.transfer,
            call=ContractCall(self._transmitter, _RECEIVE + arguments),
            done_view=ContractCall(self._transmitter, _USED + bytes.fromhex(row.nonce[2:])),
        )
