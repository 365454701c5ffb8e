"""Rows of the relay, as it writes them, and rows that give it something to do."""

from typing import Any

from sqlalchemy import Connection, func, insert, select

from indexer.transfers.inputs import TransferTerms
from tests.factories.intake import ask
from warehouse_schema.facts import cctp_attestations
from warehouse_schema.identifiers import Address, BaseUnits, ChainId, StellarAddress, UnixSeconds
from warehouse_schema.projections import movements, transfer_states
from warehouse_schema.relay import attempts, slots

OPERATOR = "0x" + "0e" * 20
OWNER = StellarAddress("GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV")
STELLAR, EVM = ChainId("stellar:devnet"), ChainId("eip155:31337")


def signed(
    conn: Connection, chain: str, purpose: str, subject: str, tx_hash: str, **changes: Any
) -> None:
    """A transaction that the relay signed and has not sent so far; of a slot of its own."""
    numbers = select(func.count()).select_from(slots).where(slots.c.chain == chain)
    place = {"chain": chain, "account": OPERATOR, "number": conn.scalar(numbers)}
    what = {"purpose": purpose, "subject": subject}
    conn.execute(insert(slots).values(place | what | {"key": subject} | changes))
    attempt = {"tx_hash": tx_hash, "signed": b"", "most_cost": 10**15}
    conn.execute(insert(attempts).values(place | what | attempt))


def owe(
    conn: Connection,
    chain: str,
    nonce: str,
    message: bytes,
    attestation: bytes,
    recipient: str,
    *,
    amount: int,
    is_extra: bool = False,
    **changes: Any,
) -> str:
    """A withdrawal whose burn is attested and not delivered; the id of its transfer.

    A deposit if the chain is Stellar. `amount` has 6 decimals; `changes` are of the movement,
    `is_extra` when it is not what carries the transfer.
    """
    source, paid = (EVM, amount) if chain == STELLAR else (STELLAR, amount * 10)
    transfer, key = nonce[2:34], f"0x{nonce[34:]:0>64}"
    ask(
        conn,
        TransferTerms(
            id=transfer,
            owner=OWNER,
            mechanism="cctp",
            source_chain=source,
            source_address=Address(OWNER),
            source_token=Address(OWNER),
            dest_chain=ChainId(chain),
            dest_address=Address(recipient),
            amount_in=BaseUnits(paid),
            min_refund=BaseUnits(1_000_000),
            deposit_address=None,
            started_at=UnixSeconds(1_800_000_000),
            expires_at=UnixSeconds(1_800_001_800),
        ),
    )
    movement = f"cctp:{key}:0"
    progress: dict[str, Any] = {
        "id": movement,
        "mechanism": "cctp",
        "group_key": key,
        "stage": "DELIVERING",
        "source_chain": source,
        "source_tx": nonce[2:],
        "amount_in": paid,
        "dest_chain": chain,
        "dest_address": recipient,
        "message_id": nonce,
        "sent_at": 1_800_000_000 + (conn.scalar(select(func.count(movements.c.id))) or 0),
    }
    conn.execute(insert(movements).values(progress | changes))
    stage = {
        "transfer": transfer,
        "stage": "AWAITING_SIGNATURE" if is_extra else "DELIVERING",
        "timeline": [],
        "movement": None if is_extra else movement,
        "extras": [movement] if is_extra else [],
        "keys": [key],
        "source_chain": source,
        "inputs": 0,
    }
    conn.execute(insert(transfer_states).values(stage))
    attested = {
        "source_domain": 27,
        "nonce": nonce,
        "message_hash": nonce,
        "source_chain": source,
        "source_tx": nonce[2:],
        "burn_key": key,
        "message": message,
        "attestation": attestation,
        "status": "complete",
        "attesters": [],
        "verified": True,
    }
    conn.execute(insert(cctp_attestations).values(attested))
    return transfer
