"""Job source: OFT messages on Stellar that LayerZero's executor gave up.

A failed credit leaves its message verified, and anyone may execute it again at any later time
(LayerZero, OApp `lz_receive`). The executor goes first: its deliveries cost the relay nothing.
"""

from typing import Any

from sqlalchemy import Connection, Row, text
from stellar_sdk import scval, xdr

from indexer.bridges.oft.packet import parse_packet
from indexer.config.networks import StellarChain
from indexer.errors import ConfigurationError
from indexer.movements.fold import DELIVERABLE
from relay.nonces import JobName, RelayJob
from relay.senders.stellar_signing import Invocation, read_invocation
from warehouse_schema.identifiers import StellarAddress

_LIMIT = 50

# Due when an obstacle of the recipient was cleared, or when no executor delivered for long.
# MATERIALIZED: Postgres knows little about the few messages there are, and would otherwise start
# with every quote instead of the index of waiting movements.
_QUERY = text("""
    WITH waiting AS MATERIALIZED (
        SELECT id, group_key, source_chain, dest_chain, sent_at
        FROM projections.movements
        WHERE mechanism = 'oft' AND dest_tx IS NULL
          AND stage = :deliverable AND dest_chain = :chain
    )
    SELECT DISTINCT ON (p.sent_at, p.id) s.transfer, sent.packet
    FROM waiting p
    JOIN projections.transfer_states s ON s.keys @> ARRAY[p.group_key] AND s.movement = p.id
    JOIN intake.transfers t ON t.id = s.transfer
    JOIN intake.quotes q ON q.id = t.quote
    JOIN facts.lz_packets_sent sent ON sent.chain = p.source_chain AND sent.guid = p.group_key
    JOIN facts.lz_packets_verified verified ON verified.chain = p.dest_chain
                                           AND verified.guid = p.group_key
    WHERE q.dest_chain = :chain
      AND NOT EXISTS (
          SELECT FROM relay.obstacles o WHERE o.transfer = s.transfer AND o.cleared_at IS NULL
      )
      AND (
          verified.block_time < extract(epoch FROM clock_timestamp()) - :abandoned
          OR EXISTS (
              SELECT FROM relay.obstacles o
              WHERE o.transfer = s.transfer
                AND o.cleared_at < clock_timestamp() - make_interval(secs => :executor)
          )
      )
    ORDER BY p.sent_at, p.id, s.transfer
    LIMIT :limit
""")
_TRANSFER = text("""
    SELECT s.transfer
    FROM projections.movements p
    JOIN projections.transfer_states s ON s.keys @> ARRAY[p.group_key] AND s.movement = p.id
    WHERE p.mechanism = 'oft' AND p.dest_chain = :chain AND p.group_key = :guid
    ORDER BY s.transfer
    LIMIT 1
""")
EXECUTOR_SECONDS = 15
"""Head start of the executor, once its message can be delivered."""
ABANDONED_SECONDS = 600
"""After this the executor is assumed to have given up."""


class OftDeliveries:
    """OFT deliveries on Stellar. Raises `ConfigurationError` for a chain without the OFT."""

    def __init__(self, chain: StellarChain, executor: StellarAddress) -> None:
        """`executor` is the signing account, an argument of the call."""
        if chain.oft is None or chain.lz_endpoint is None:
            raise ConfigurationError(f"the OFT does not lead to {chain.id}: nothing to deliver")
        self._chain, self._executor = chain, executor
        self._oft: StellarAddress = chain.oft
        self._endpoint: StellarAddress = chain.lz_endpoint

    def jobs(self, conn: Connection) -> list[RelayJob[Invocation]]:
        """Messages to execute again, the oldest first."""
        bounds = {"executor": EXECUTOR_SECONDS, "abandoned": ABANDONED_SECONDS, "limit": _LIMIT}
        rows = conn.execute(_QUERY, {"chain": self._chain.id, "deliverable": DELIVERABLE} | bounds)
        return [self._execution(row) for row in rows]

    def rejection(self, conn: Connection, job: RelayJob[Invocation]) -> str | None:
        """None: a second execution delivers nothing, and costs no more than a fee."""
        return None

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed execution; its key is the message's GUID, the third argument."""
        call = read_invocation(raw)
        if call is None or (call.contract, call.function) != (self._oft, "lz_receive"):
            return None
        guid = f"0x{scval.from_bytes(call.arguments[2]).hex()}"
        subject = conn.scalar(_TRANSFER, {"chain": self._chain.id, "guid": guid})
        return JobName("deliver", guid, subject or "")

    def _execution(self, row: Row[Any]) -> RelayJob[Invocation]:
        """Done once the endpoint has no hash for the message: it was cleared."""
        packet = parse_packet(row.packet)
        sender, src_eid = _bytes(packet.sender), scval.to_uint32(packet.src_eid)
        nonce = scval.to_uint64(packet.nonce)
        arguments = (
            scval.to_address(self._executor),
            scval.to_struct({"nonce": nonce, "sender": sender, "src_eid": src_eid}),
            _bytes(packet.guid),
            scval.to_bytes(packet.message),
            scval.to_bytes(b""),
            scval.to_int128(0),
        )
        path = (scval.to_address(self._oft), src_eid, sender, nonce)
        return RelayJob(
            purpose="deliver",
            key=packet.guid,
            subject=row.transfer,
            call=Invocation(self._oft, "lz_receive", arguments),
            done_view=Invocation(self._endpoint, "inbound_payload_hash", path),
            done_when_zero=True,
        )


def _bytes(word: str) -> xdr.SCVal:
    return scval.to_bytes(bytes.fromhex(word.removeprefix("0x")))
