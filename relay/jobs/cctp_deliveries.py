"""Attested CCTP messages that transfers wait for on a chain.

A message is delivered when it carries a transfer, or pays a transfer's recipient beside what was
agreed while the owner's daily limit has room (docs/transfers.md). Others pay for their own
delivery; anybody may deliver any.
"""

from collections.abc import Iterator
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from sqlalchemy import Connection, Row, text
from stellar_sdk import scval

from indexer.config.networks import EvmChain, StellarChain
from indexer.errors import ConfigurationError
from relay.jobs.extras import reject_extra, within_limits
from relay.nonces import RelayJob
from relay.senders.evm_signing import ContractCall
from relay.senders.stellar_signing import Invocation
from warehouse_schema.identifiers import ChainId, EvmAddress, StellarAddress

_MOST = 100
_RECEIVE = keccak(text="receiveMessage(bytes,bytes)")[:4]
_USED = keccak(text="usedNonces(bytes32)")[:4]

# Extras below what is worth sending back are not worth delivering either: whoever writes our label
# on burns of nothing makes nobody pay for them.
#
# What is under way is always among them, for it must be known. Of more than are taken it is chance
# that says which: what can never be delivered (to whom an issuer froze) stays the oldest for ever,
# and would keep everything after it waiting.
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
          AND p.stage = 'DELIVERING' AND p.dest_chain = :chain
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
        LIMIT :most
    )
    SELECT * FROM taken ORDER BY sent_at, id
"""
_AGREED = text(_QUERY.format(condition="s.movement = p.id"))
_EXTRAS = text(_QUERY.format(condition="p.id = ANY(s.extras) AND p.amount_in >= q.min_refund"))


def _owed_messages(conn: Connection, chain: ChainId) -> Iterator[Row[Any]]:
    """What carries a transfer, and then extras that limits allow; of each the oldest first."""
    yield from conn.execute(_AGREED, {"chain": chain, "most": _MOST})
    extras = conn.execute(_EXTRAS, {"chain": chain, "most": _MOST})
    yield from within_limits(conn, extras)


class StellarDeliveries:
    """What is owed on Stellar. Raises `ConfigurationError` where CCTP does not lead to it."""

    def __init__(self, chain: StellarChain) -> None:
        if chain.cctp_forwarder is None or chain.cctp_message_transmitter is None:
            raise ConfigurationError(f"CCTP does not lead to {chain.id}: nothing to deliver there")
        self._chain = chain
        self._forwarder: StellarAddress = chain.cctp_forwarder
        self._transmitter: StellarAddress = chain.cctp_message_transmitter

    def owed(self, conn: Connection) -> list[RelayJob[Invocation]]:
        """Messages that wait for their delivery: those of transfers, then extras."""
        return [self._delivery(row) for row in _owed_messages(conn, self._chain.id)]

    def objection(self, conn: Connection, owed: RelayJob[Invocation]) -> str | None:
        """To extras beyond a daily limit alone: a second delivery costs a fee at most."""
        return reject_extra(conn, owed.subject, owed.key)

    def _delivery(self, row: Row[Any]) -> RelayJob[Invocation]:
        """Minted and forwarded in one; over once its nonce is used, whoever used it."""
        arguments = (scval.to_bytes(row.message), scval.to_bytes(row.attestation))
        nonce = scval.to_bytes(bytes.fromhex(row.nonce[2:]))
        return RelayJob(
            purpose="deliver",
            key=row.nonce,
            subject=row.transfer,
            call=Invocation(self._forwarder, "mint_and_forward", arguments),
            is_over=Invocation(self._transmitter, "is_nonce_used", (nonce,)),
        )


class EvmDeliveries:
    """What is owed on one EVM chain. Raises `ConfigurationError` where CCTP does not lead to it."""

    def __init__(self, chain: EvmChain) -> None:
        if chain.cctp_message_transmitter is None:
            raise ConfigurationError(f"CCTP does not lead to {chain.id}: nothing to deliver there")
        self._chain = chain
        self._transmitter: EvmAddress = chain.cctp_message_transmitter

    def owed(self, conn: Connection) -> list[RelayJob[ContractCall]]:
        """Messages that wait for their delivery: those of transfers, then extras."""
        return [
            delivery(self._transmitter, row.transfer, row.nonce, row.message, row.attestation)
            for row in _owed_messages(conn, self._chain.id)
        ]

    def objection(self, conn: Connection, owed: RelayJob[ContractCall]) -> str | None:
        """As on Stellar."""
        return reject_extra(conn, owed.subject, owed.key)


def delivery(
    transmitter: EvmAddress, transfer: str, nonce: str, message: bytes, attestation: bytes
) -> RelayJob[ContractCall]:
    """The delivery of a message; over once its nonce is used, whoever used it."""
    return RelayJob(
        purpose="deliver",
        key=nonce,
        subject=transfer,
        call=ContractCall(
            transmitter, _RECEIVE + encode(["bytes", "bytes"], [message, attestation])
        ),
        is_over=ContractCall(transmitter, _USED + bytes.fromhex(nonce[2:])),
    )
