"""OFT messages on Stellar that LayerZero's executor gave up, because nobody could be paid then.

A credit that fails leaves its message verified, and anybody may execute it again, for as long as it
takes (LayerZero, OApp `lz_receive`). The executor goes first: what it delivers costs us nothing.
"""

from typing import Any

from sqlalchemy import Connection, Row, text
from stellar_sdk import scval, xdr

from indexer.bridges.oft.packet import parse_packet
from indexer.config.networks import StellarChain
from indexer.errors import ConfigurationError
from relay.nonces import RelayJob
from relay.senders.stellar_signing import Invocation
from warehouse_schema.identifiers import StellarAddress

_MOST = 50

# After a recipient could be paid again, or when nobody has delivered for long.
# What waits is found first, by its index: Postgres, which knows little of messages where there are
# few, would begin with every quote there is.
_QUERY = text("""
    WITH waiting AS MATERIALIZED (
        SELECT id, group_key, source_chain, dest_chain, sent_at
        FROM projections.movements
        WHERE mechanism = 'oft' AND dest_tx IS NULL AND stage = 'DELIVERING' AND dest_chain = :chain
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
          verified.block_time < extract(epoch FROM clock_timestamp()) - :long
          OR EXISTS (
              SELECT FROM relay.obstacles o
              WHERE o.transfer = s.transfer
                AND o.cleared_at < clock_timestamp() - make_interval(secs => :first)
          )
      )
    ORDER BY p.sent_at, p.id, s.transfer
    LIMIT :most
""")
EXECUTOR_SECONDS = 15
"""For the executor, once its message can be delivered."""
LONG_SECONDS = 600
"""After which it is taken to have given up."""


class OftDeliveries:
    """What is owed of the OFT on Stellar. Raises `ConfigurationError` where it does not lead."""

    def __init__(self, chain: StellarChain, executor: StellarAddress) -> None:
        """`executor` is who signs: whoever executes a message says so."""
        if chain.oft is None or chain.lz_endpoint is None:
            raise ConfigurationError(f"the OFT does not lead to {chain.id}: nothing to deliver")
        self._chain, self._executor = chain, executor
        self._oft: StellarAddress = chain.oft
        self._endpoint: StellarAddress = chain.lz_endpoint

    def owed(self, conn: Connection) -> list[RelayJob[Invocation]]:
        """Messages that somebody has to execute again, the oldest first."""
        bounds = {"first": EXECUTOR_SECONDS, "long": LONG_SECONDS, "most": _MOST}
        rows = conn.execute(_QUERY, {"chain": self._chain.id} | bounds)
        return [self._execution(row) for row in rows]

    def objection(self, conn: Connection, owed: RelayJob[Invocation]) -> str | None:
        """None: whoever is second delivers nothing, and pays a fee at most."""
        return None

    def _execution(self, row: Row[Any]) -> RelayJob[Invocation]:
        """Over once the endpoint has no hash for it any more: it cleared the message."""
        packet = parse_packet(row.packet)
        origin = {
            "nonce": scval.to_uint64(packet.nonce),
            "sender": _bytes(packet.sender),
            "src_eid": scval.to_uint32(packet.src_eid),
        }
        arguments = (
            scval.to_address(self._executor),
            scval.to_struct(origin),
            _bytes(packet.guid),
            scval.to_bytes(packet.message),
            scval.to_bytes(b""),
            scval.to_int128(0),
        )
        path = (
            scval.to_address(self._oft),
            origin["src_eid"],
            origin["sender"],
            origin["nonce"],
        )
        return RelayJob(
            purpose="deliver",
            key=packet.guid,
            subject=row.transfer,
            call=Invocation(self._oft, "lz_receive", arguments),
            is_over=Invocation(self._endpoint, "inbound_payload_hash", path),
            is_over_at_nought=True,
        )


def _bytes(word: str) -> xdr.SCVal:
    return scval.to_bytes(bytes.fromhex(word.removeprefix("0x")))
