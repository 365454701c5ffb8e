"""Facts about transfers, as chains and services would give them."""

from dataclasses import asdict, replace

from sqlalchemy import Connection, insert
from sqlalchemy.dialects import postgresql

from indexer.addresses import contract_as_bytes32, evm_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import HEADER_SIZE, burn_key
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import Block
from indexer.facts.rows import EVENT_MAPPINGS, RowBatch, write_rows
from indexer.ingest.projections import apply_range
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.matching import payer
from tests.factories.stage_history import make_terms
from tests.factories.transfers import (
    ETHEREUM,
    FORWARDER,
    NETWORK,
    NONCE,
    PUBNET,
    ZERO,
    make_hook,
    seen,
)
from warehouse_schema.facts import blocks, cursors, unproven_blocks
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    BlockHash,
    Bytes32,
    EvmAddress,
    StellarAddress,
)

USDC = Address(str(NETWORK.evm[0].usdc))
DIRECT = make_terms(deposit_address=None, source_token=USDC)
PAID_IN = make_terms(source_token=USDC, id="b2" * 16)
MESSENGER = evm_as_bytes32(EvmAddress(str(NETWORK.evm[0].cctp_token_messenger)))


def body_of(terms: TransferTerms) -> bytes:
    """Burn body of what a deposit issues."""
    words = [
        evm_as_bytes32(EvmAddress(terms.source_token)),
        contract_as_bytes32(FORWARDER),
        f"0x{terms.amount_in:064x}",
        evm_as_bytes32(EvmAddress(payer(terms))),
    ]
    packed = b"".join(bytes.fromhex(word[2:]) for word in words)
    hook = make_hook(terms.dest_address) + bytes.fromhex(terms.id)
    return (1).to_bytes(4, "big") + packed + bytes(96) + hook


def key_of(terms: TransferTerms) -> Bytes32:
    key = burn_key(0, 27, MESSENGER, body_of(terms))
    assert key is not None
    return key


def burn(terms: TransferTerms, height: int, tx: str = "a", **changes) -> list[Event]:
    """The burn that a deposit issues, in two events; `changes` are of its own event."""
    deposit = DepositForBurn(
        seen=seen(terms.source_chain, height, tx, 1),
        burn_token=terms.source_token,
        amount=terms.amount_in,
        depositor=payer(terms),
        mint_recipient=contract_as_bytes32(FORWARDER),
        destination_domain=27,
        destination_token_messenger=ZERO,
        destination_caller=contract_as_bytes32(FORWARDER),
        max_fee=BaseUnits(0),
        min_finality_threshold=2000,
        hook_data=make_hook(terms.dest_address) + bytes.fromhex(terms.id),
    )
    message = MessageSent(
        seen=seen(terms.source_chain, height, tx, 0),
        message=bytes(HEADER_SIZE) + body_of(terms),
        source_domain=0,
        destination_domain=27,
        sender=MESSENGER,
        recipient=ZERO,
        burn_key=key_of(terms),
    )
    return [message, replace(deposit, **changes)]


def mint(terms: TransferTerms, height: int, tx: str = "c", nonce: Bytes32 = NONCE) -> list[Event]:
    """Its delivery on Stellar."""
    amount = terms.amount_in
    return [
        MintAndWithdraw(
            seen(PUBNET, height, tx, 0),
            Address(FORWARDER),
            amount,
            Address(NETWORK.stellar.usdc_contract),
            BaseUnits(0),
        ),
        MessageReceived(
            seen=seen(PUBNET, height, tx, 1),
            caller=Address(FORWARDER),
            source_domain=0,
            nonce=nonce,
            sender=MESSENGER,
            finality_threshold_executed=2000,
            message_body=body_of(terms),
            burn_key=key_of(terms),
        ),
        MintAndForward(
            seen(PUBNET, height, tx, 2),
            BaseUnits(amount * 10),
            StellarAddress(terms.dest_address),
            NETWORK.stellar.usdc_contract,
        ),
    ]


def paid(
    sender: str, recipient: str, amount: int, height: int, tx: str = "b", token: str = USDC
) -> Erc20Transfer:
    return Erc20Transfer(
        seen=seen(ETHEREUM, height, tx, 5),
        token=EvmAddress(token),
        sender=EvmAddress(sender),
        recipient=EvmAddress(recipient),
        amount=BaseUnits(amount),
    )


def given_back(
    deposit: str, refund_to: str, amount: int, height: int, tx: str = "e", token: str = USDC
) -> DepositRefunded:
    return DepositRefunded(
        seen=seen(ETHEREUM, height, tx, 6),
        deposit=EvmAddress(deposit),
        token=EvmAddress(token),
        refund_to=EvmAddress(refund_to),
        amount=BaseUnits(amount),
    )


def keep(conn: Connection, *events: Event) -> None:
    """Store events as facts, in one write as its follower does."""
    by_type: dict[type[Event], list[Event]] = {}
    for event in events:
        by_type.setdefault(type(event), []).append(event)
    mappings = ((EVENT_MAPPINGS[each], of_type) for each, of_type in by_type.items())
    write_rows(
        conn,
        [
            RowBatch(mapping.columns, [mapping.row(event) for event in of_type])
            for mapping, of_type in mappings
        ],
    )


def bring_in(conn: Connection, *events: Event) -> None:
    """Store events of one chain and fold them in, as its follower does."""
    keep(conn, *events)
    apply_range(conn, NETWORK, events[0].seen.chain, [], events)


def stand_at(conn: Connection, place: Provenance, final: int | None = None) -> None:
    """Where a chain's cursor is, and up to where it is final."""
    row = {
        "chain": place.chain,
        "height": place.height,
        "block_hash": place.block_hash,
        "block_time": place.block_time,
        "head_height": place.height,
        "head_time": place.block_time,
        "final_height": final,
    }
    statement = postgresql.insert(cursors).values(row)
    conn.execute(statement.on_conflict_do_update(index_elements=["chain"], set_=row))


def make_unproven(conn: Connection, place: Provenance) -> Block:
    """Its block, stored, whose logs only one node's word stands for."""
    parent = BlockHash("0x" + "00" * 32)
    block = Block(place.chain, place.height, place.block_hash, parent, place.block_time)
    conn.execute(insert(blocks).values({**asdict(block), "events": 1}))
    row = {"chain": block.chain, "block_hash": block.hash, "height": block.height}
    conn.execute(insert(unproven_blocks).values(row))
    return block
