"""Movements of USDC (CCTP) and USDT0 (OFT) between chains, folded from the events of both. Pure.

The order in which the two chains are read does not matter. A CCTP movement has a burn key on both
sides, an OFT movement a guid. A verified attestation names a burn's mint; statuses of services only
explain a wait.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, get_args

from indexer.addresses import bytes32_as_evm, contract_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import forward_recipient
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.chains.events import Event
from indexer.chains.services.messages import AttestedBurn, MessageStatus, Service, burn_id
from indexer.config.networks import Network, StellarChain
from indexer.config.routes import Bridge
from warehouse_schema.identifiers import Bytes32, ChainId, is_evm

MovementStage: TypeAlias = Literal["ATTESTING", "IN_FLIGHT", "DELIVERING", "ON_HOLD", "COMPLETED"]
MovementKey: TypeAlias = tuple[Bridge, Bytes32]
"""Bridge, and what both sides of its movement share: burn key or guid."""
DELIVERABLE: MovementStage = "DELIVERING"
"""Attested or verified, and not delivered: bound parameter of SQL outside this package."""

E = TypeVar("E", bound=Event)

STELLAR_PER_SHARED = 10
"""Base units of Stellar (7 decimals) per shared unit of CCTP and the OFT (6 decimals)."""

NO_STATUSES: Mapping[str, MessageStatus] = MappingProxyType({})
_SERVICE_NAMES: Mapping[Service, str] = {
    "iris": "the attestation service",
    "lz_scan": "LayerZero Scan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One row of `projections.movements`, whose comments give the units."""

    id: str
    mechanism: Bridge
    group_key: Bytes32
    stage: MovementStage
    stage_reason: str | None = None
    source_chain: ChainId | None = None
    source_tx: str | None = None
    source_address: str | None = None
    amount_in: int | None = None
    dest_chain: ChainId | None = None
    dest_tx: str | None = None
    dest_address: str | None = None
    amount_out: int | None = None
    fee: int | None = None
    message_id: str | None = None
    sent_at: int | None = None
    delivered_at: int | None = None

    @property
    def key(self) -> MovementKey:
        """Shared by the rows of byte-identical burns."""
        return self.mechanism, self.group_key


OftEvent: TypeAlias = (
    OftSent | OftReceived | PacketSent | PacketVerified | PacketDelivered | LzReceiveAlert
)
BURN_EVENTS: tuple[type[Event], ...] = (MessageSent, DepositForBurn)
MINT_EVENTS: tuple[type[Event], ...] = (MintAndWithdraw, MessageReceived, MintAndForward)
OFT_EVENTS: tuple[type[OftEvent], ...] = get_args(OftEvent)


@dataclass(frozen=True, slots=True)
class Burn:
    """A burn: message and messenger event of one transaction."""

    message: MessageSent
    deposit: DepositForBurn


@dataclass(frozen=True, slots=True)
class Mint:
    """A mint: messenger event, the message that caused it, and the forwarder's payment."""

    mint: MintAndWithdraw
    message: MessageReceived
    forward: MintAndForward | None


def group_by_transaction(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Events of each transaction together, transactions and events in chain order."""
    ordered = sorted(events, key=lambda e: (e.seen.chain, e.seen.height, e.seen.position))
    for _, group in groupby(ordered, key=lambda e: (e.seen.chain, e.seen.height, e.seen.tx_hash)):
        yield list(group)


def pair_burns(events: Iterable[Event]) -> list[Burn]:
    """Match each DepositForBurn of one transaction with the nearest unpaired MessageSent before it.

    `events` are one transaction's, in order. A message without a burn belongs to another protocol,
    whatever its body: only the messenger emits DepositForBurn.
    """
    open_messages: list[MessageSent] = []
    burns: list[Burn] = []
    for event in events:
        if isinstance(event, MessageSent):
            open_messages.append(event)
        elif isinstance(event, DepositForBurn) and open_messages:
            burns.append(Burn(open_messages.pop(), event))
    return burns


def pair_mints(events: Iterable[Event]) -> list[Mint]:
    """Match each MintAndWithdraw of one transaction with the next MessageReceived after it.

    `events` are one transaction's, in order. On Stellar `mint_and_forward` follows both.
    """
    mints: list[Mint] = []
    waiting: MintAndWithdraw | None = None
    for event in events:
        if isinstance(event, MintAndWithdraw):
            waiting = event
        elif isinstance(event, MessageReceived) and waiting is not None:
            mints.append(Mint(waiting, event, None))
            waiting = None
        elif isinstance(event, MintAndForward) and mints and mints[-1].forward is None:
            mints[-1] = Mint(mints[-1].mint, mints[-1].message, event)
    return mints


def fold_cctp(
    network: Network,
    key: Bytes32,
    burns: Sequence[Burn],
    mints: Sequence[Mint],
    attested: Sequence[AttestedBurn] = (),
    statuses: Mapping[str, MessageStatus] = NO_STATUSES,
    *,
    first: int = 0,
) -> list[Movement]:
    """Rows of all burns and mints of one burn key, both in chain order.

    Byte-identical burns share a key and have a row each. An attested burn has the mint of its nonce
    and no other; the rest are matched first in, first out. A mint without a burn is complete: the
    burn's chain was not read so far, or reorganised it away.

    `attested`: this key's burns with a verified attestation, oldest first. `statuses`: what
    services say, by `burn_id`. `first`: number of earlier burns, which these cannot change.
    """
    nonces = _match_nonces(burns, attested)
    named = {nonce for nonce in nonces if nonce is not None}
    by_nonce = {mint.message.nonce: mint for mint in mints if mint.message.nonce in named}
    unnamed = [mint for mint in mints if mint.message.nonce not in named]
    pairs: list[tuple[Burn | None, Mint | None, Bytes32 | None]] = []
    for each, name in zip(burns, nonces, strict=True):
        if name is not None:
            pairs.append((each, by_nonce.get(name), name))
        else:
            pairs.append((each, unnamed.pop(0) if unnamed else None, None))
    pairs += [(None, mint, None) for mint in unnamed]
    rows: list[Movement] = []
    for ordinal, (burn, mint, nonce) in enumerate(pairs, first):
        stage, reason = _cctp_stage(network, burn, mint, nonce)
        if mint is None and burn is not None and reason is not None:
            reason += _status_text(statuses.get(burn_id(burn.message.seen)))
        row = Movement(
            id=f"cctp:{key}:{ordinal}",
            mechanism="cctp",
            group_key=key,
            stage=stage,
            stage_reason=reason,
            message_id=nonce,
        )
        row = row if burn is None else _with_burn(network, row, burn)
        rows.append(row if mint is None else _with_mint(network, row, mint))
    return rows


def _match_nonces(burns: Sequence[Burn], attested: Sequence[AttestedBurn]) -> list[Bytes32 | None]:
    """The nonce under which each burn was attested.

    Identical burns of one transaction are indistinguishable: they take its nonces in order. Of more
    nonces than burns the newest count: the transaction is in another block since a reorg.
    """
    places = [(burn.message.seen.chain, burn.message.seen.tx_hash) for burn in burns]
    nonces: dict[tuple[str, str], list[Bytes32]] = defaultdict(list)
    for each in attested:
        nonces[each.source_chain, each.source_tx].append(each.nonce)
    for place in set(places):
        nonces[place] = nonces[place][-places.count(place) :]
    return [nonces[place].pop(0) if nonces[place] else None for place in places]


def _status_text(status: MessageStatus | None) -> str:
    """A service's status, as an addition to the reason of a wait."""
    if status is None:
        return ""
    detail = "" if status.detail is None else f", {status.detail}"
    return f"; {_SERVICE_NAMES[status.service]} says: {status.status}{detail}"


def _with_burn(network: Network, row: Movement, burn: Burn) -> Movement:
    destination = network.chain_of_domain(burn.message.destination_domain)
    recipient: str = burn.deposit.mint_recipient
    # In the destination's own form, where that is known.
    if destination is not None and is_evm(destination):
        recipient = bytes32_as_evm(burn.deposit.mint_recipient) or recipient
    elif destination is not None:
        recipient = forward_recipient(burn.deposit.hook_data) or recipient
    return replace(
        row,
        source_chain=burn.deposit.seen.chain,
        source_tx=burn.deposit.seen.tx_hash,
        source_address=burn.deposit.depositor,
        amount_in=burn.deposit.amount * _scale(network, burn.deposit.seen.chain),
        sent_at=burn.deposit.seen.block_time,
        dest_chain=destination,
        dest_address=recipient,
    )


def _with_mint(network: Network, row: Movement, mint: Mint) -> Movement:
    source = network.chain_of_domain(mint.message.source_domain)
    paid = mint.forward.forward_recipient if mint.forward else mint.mint.mint_recipient
    return replace(
        row,
        source_chain=source,
        fee=mint.mint.fee_collected * _scale(network, source),
        dest_chain=mint.mint.seen.chain,
        dest_tx=mint.mint.seen.tx_hash,
        dest_address=paid,
        amount_out=mint.mint.amount * _scale(network, mint.mint.seen.chain),
        message_id=mint.message.nonce,
        delivered_at=mint.mint.seen.block_time,
    )


def _cctp_stage(
    network: Network, burn: Burn | None, mint: Mint | None, nonce: Bytes32 | None
) -> tuple[MovementStage, str | None]:
    if mint is not None:
        forwarder: str | None = network.stellar.cctp_forwarder
        if mint.mint.mint_recipient == forwarder and mint.forward is None:
            return "ON_HOLD", "minted to the forwarder contract and not paid on"
        return "COMPLETED", None
    if burn is not None and _is_undeliverable(network.stellar, burn):
        return "ON_HOLD", "the burn does not name the forwarder and a recipient it can pay"
    if nonce is not None:
        return "DELIVERING", "attested; waiting for its mint"
    return "ATTESTING", "waiting for the attestation and its mint"


def _is_undeliverable(stellar: StellarChain, burn: Burn) -> bool:
    """Whether a burn towards Stellar can never be paid out."""
    if burn.message.destination_domain != stellar.cctp_domain or stellar.cctp_forwarder is None:
        return False
    forwarder = contract_as_bytes32(stellar.cctp_forwarder)
    return (
        burn.deposit.mint_recipient != forwarder
        or burn.deposit.destination_caller != forwarder
        or forward_recipient(burn.deposit.hook_data) is None
    )


def fold_oft(
    network: Network,
    guid: Bytes32,
    events: Sequence[OftEvent],
    statuses: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """The row of one OFT message; none when only endpoint events of it were seen.

    `statuses`: what services say, by guid.
    """
    sent, received = _first(events, OftSent), _first(events, OftReceived)
    if sent is None and received is None:
        return []
    packet = _first(events, PacketSent)
    stage, reason = oft_stage(events, received)
    source_chain = dest_chain = None
    dest_address: str | None = None
    if sent is not None:
        source_chain, dest_chain = sent.seen.chain, network.chain_of_eid(sent.dst_eid)
    elif received is not None:
        source_chain = network.chain_of_eid(received.src_eid)
    if received is not None:
        dest_chain, dest_address = received.seen.chain, received.to_address
    elif packet is not None:
        # On Stellar only the delivery tells an account from a contract.
        to_evm = dest_chain is not None and is_evm(dest_chain)
        dest_address = (bytes32_as_evm(packet.send_to) if to_evm else None) or packet.send_to
    # Made in one piece: a backfill folds a hundred thousand of them.
    row = Movement(
        id=f"oft:{guid}",
        mechanism="oft",
        group_key=guid,
        stage=stage,
        stage_reason=None if reason is None else reason + _status_text(statuses.get(guid)),
        source_chain=source_chain,
        source_tx=None if sent is None else sent.seen.tx_hash,
        source_address=None if sent is None else sent.from_address,
        amount_in=None if sent is None else sent.amount_sent,
        dest_chain=dest_chain,
        dest_tx=None if received is None else received.seen.tx_hash,
        dest_address=dest_address,
        amount_out=None if received is None else received.amount_received,
        fee=None if sent is None else sent.amount_sent - sent.amount_received,
        message_id=guid,
        sent_at=None if sent is None else sent.seen.block_time,
        delivered_at=None if received is None else received.seen.block_time,
    )
    return [row]


def oft_stage(
    events: Sequence[OftEvent], received: OftReceived | None
) -> tuple[MovementStage, str | None]:
    """Stage of an OFT message, and why it waits. `received` is its delivery, if there is one."""
    if received is not None:
        return "COMPLETED", None
    if _first(events, PacketVerified) is None:
        return "IN_FLIGHT", "waiting for the message layer to verify it"
    if _first(events, LzReceiveAlert) is not None:
        # Anyone can emit an alert: it explains a wait and decides nothing.
        return "DELIVERING", "verified; an executor reports that its delivery failed"
    return "DELIVERING", "verified; waiting for its delivery"


def _first(events: Sequence[Event], kind: type[E]) -> E | None:
    for event in events:
        if isinstance(event, kind):
            return event
    return None


def _scale(network: Network, chain: ChainId | None) -> int:
    """Base units of the chain per CCTP unit of 6 decimals."""
    return STELLAR_PER_SHARED if chain == network.stellar.id else 1
