"""Movements of USDC (CCTP) and USDT0 (OFT) between chains, folded from what both chains said.

Pure. Either chain may be read first; a movement is the same row whichever was. A CCTP movement is
known on both sides by its burn key, an OFT movement by its guid. A verified attestation moves a
burn on and names its mint; what a service says beside that only explains a wait.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from warehouse_schema.identifiers import Bytes32, ChainId, is_evm

MovementStage: TypeAlias = Literal["ATTESTING", "IN_FLIGHT", "DELIVERING", "ON_HOLD", "COMPLETED"]

E = TypeVar("E", bound=Event)

STELLAR_PER_SHARED = 10
"""Stellar has 7 decimals where CCTP and the OFT share 6."""

NO_STATUSES: Mapping[str, MessageStatus] = MappingProxyType({})
_NAMES: Mapping[Service, str] = {
    "iris": "the attestation service",
    "lz_scan": "LayerZero Scan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One row of `projections.movements`; its comments give the units."""

    id: str
    mechanism: Literal["cctp", "oft"]
    group_key: str
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


OftEvent: TypeAlias = (
    OftSent | OftReceived | PacketSent | PacketVerified | PacketDelivered | LzReceiveAlert
)
BURN_EVENTS: tuple[type[Event], ...] = (MessageSent, DepositForBurn)
MINT_EVENTS: tuple[type[Event], ...] = (MintAndWithdraw, MessageReceived, MintAndForward)
OFT_EVENTS: tuple[type[OftEvent], ...] = get_args(OftEvent)
MOVEMENT_EVENTS: tuple[type[Event], ...] = (MessageSent, MessageReceived, *OFT_EVENTS)
"""Those that name their movement; others are found by the transaction they share with these."""


@dataclass(frozen=True, slots=True)
class Burn:
    """A burn: the message that carries it and the messenger's own event, of one transaction."""

    message: MessageSent
    deposit: DepositForBurn


@dataclass(frozen=True, slots=True)
class Mint:
    """A mint: the messenger's event, the message that caused it, and the payment onwards."""

    mint: MintAndWithdraw
    message: MessageReceived
    forward: MintAndForward | None


def pair_burns(events: Iterable[Event]) -> list[Burn]:
    """Match each DepositForBurn of one transaction with the nearest unpaired MessageSent before it.

    `events` are one transaction's, in order. A message nobody burned for is somebody's own
    protocol, whatever its body looks like, and pairs with nothing: only the messenger emits
    DepositForBurn.
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

    `events` are one transaction's, in order. On Stellar the forwarder's `mint_and_forward` follows
    both.
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
    said: Mapping[str, MessageStatus] = NO_STATUSES,
    *,
    first: int = 0,
) -> list[Movement]:
    """Rows of all burns and mints that share one burn key, both in chain order.

    Byte-identical burns share a key; each is a row of its own. An attested burn has the mint of its
    nonce and no other; the rest are matched first in, first out. A mint without a burn is complete
    all the same: the burn's chain is merely not read so far, or took its block back.

    `attested` are this key's burns with a verified attestation, oldest first; `said` is what
    services say, by `burn_id`. `first` burns came before, which nothing here can change.
    """
    nonces = _nonces(burns, attested)
    matched, left = _match(mints, nonces)
    rows = [
        _cctp_row(network, key, ordinal, burn, mint, nonce, said.get(burn_id(burn.message.seen)))
        for ordinal, (burn, mint, nonce) in enumerate(
            zip(burns, matched, nonces, strict=True), first
        )
    ]
    return rows + [
        _cctp_row(network, key, ordinal, None, mint, None, None)
        for ordinal, mint in enumerate(left, first + len(rows))
    ]


def _nonces(burns: Sequence[Burn], attested: Sequence[AttestedBurn]) -> list[Bytes32 | None]:
    """The nonce under which each burn was attested.

    Identical burns of one transaction cannot be told apart, so they take its nonces in order. Of
    more nonces than burns the newest count: the transaction came into another block since.
    """
    waiting: dict[tuple[str, str], list[Bytes32]] = defaultdict(list)
    for each in attested:
        waiting[each.source_chain, each.source_tx].append(each.nonce)
    of_place: dict[tuple[str, str], int] = defaultdict(int)
    for burn in burns:
        of_place[_place(burn)] += 1
    for place, count in of_place.items():
        waiting[place] = waiting[place][-count:]
    return [waiting[_place(burn)].pop(0) if waiting[_place(burn)] else None for burn in burns]


def _place(burn: Burn) -> tuple[str, str]:
    return burn.message.seen.chain, burn.message.seen.tx_hash


def _match(
    mints: Sequence[Mint], nonces: Sequence[Bytes32 | None]
) -> tuple[list[Mint | None], list[Mint]]:
    """The mint of each burn, in order of the burns, and the mints that are nobody's."""
    named = {nonce for nonce in nonces if nonce is not None}
    by_nonce = {mint.message.nonce: mint for mint in mints if mint.message.nonce in named}
    unnamed = [mint for mint in mints if mint.message.nonce not in named]
    matched: list[Mint | None] = []
    for nonce in nonces:
        if nonce is not None:
            matched.append(by_nonce.get(nonce))
        else:
            matched.append(unnamed.pop(0) if unnamed else None)
    return matched, unnamed


def _cctp_row(
    network: Network,
    key: Bytes32,
    ordinal: int,
    burn: Burn | None,
    mint: Mint | None,
    nonce: Bytes32 | None,
    status: MessageStatus | None,
) -> Movement:
    stage, reason = _cctp_stage(network, burn, mint, nonce)
    if mint is None and reason is not None:
        reason += _in_words(status)
    row = Movement(
        id=f"cctp:{key}:{ordinal}",
        mechanism="cctp",
        group_key=key,
        stage=stage,
        stage_reason=reason,
        message_id=nonce,
    )
    if burn is not None:
        row = _with_burn(network, row, burn)
    if mint is not None:
        row = _with_mint(network, row, mint)
    return row


def _in_words(status: MessageStatus | None) -> str:
    """What a service says of a message, to be put behind the reason why it waits."""
    if status is None:
        return ""
    detail = "" if status.detail is None else f", {status.detail}"
    return f"; {_NAMES[status.service]} says: {status.status}{detail}"


def _with_burn(network: Network, row: Movement, burn: Burn) -> Movement:
    destination = network.chain_of_domain(burn.message.destination_domain)
    return replace(
        row,
        source_chain=burn.deposit.seen.chain,
        source_tx=burn.deposit.seen.tx_hash,
        source_address=burn.deposit.depositor,
        amount_in=burn.deposit.amount * _scale(network, burn.deposit.seen.chain),
        sent_at=burn.deposit.seen.block_time,
        dest_chain=destination,
        dest_address=_intended_recipient(burn, destination),
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


def _intended_recipient(burn: Burn, chain: ChainId | None) -> str:
    """Who the burner wants paid, in the destination's own form where that can be told."""
    recipient = burn.deposit.mint_recipient
    if chain is None:
        return recipient
    if is_evm(chain):
        return bytes32_as_evm(recipient) or recipient
    return forward_recipient(burn.deposit.hook_data) or recipient


def _cctp_stage(
    network: Network, burn: Burn | None, mint: Mint | None, nonce: Bytes32 | None
) -> tuple[MovementStage, str | None]:
    if mint is not None:
        forwarder: str | None = network.stellar.cctp_forwarder
        if mint.mint.mint_recipient == forwarder and mint.forward is None:
            return "ON_HOLD", "minted to the forwarder contract and not paid on"
        return "COMPLETED", None
    if burn is not None and _is_lost(network.stellar, burn):
        return "ON_HOLD", "the burn does not name the forwarder and a recipient it can pay"
    if nonce is not None:
        return "DELIVERING", "attested; waiting for its mint"
    return "ATTESTING", "waiting for the attestation and its mint"


def _is_lost(stellar: StellarChain, burn: Burn) -> bool:
    """Whether a burn towards Stellar can never be paid out as it was written."""
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
    said: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """The row of one OFT message, or none when only endpoint chatter about it was seen.

    `said` is what services say, by guid.
    """
    sent = _first(events, OftSent)
    received = _first(events, OftReceived)
    if sent is None and received is None:
        return []
    stage, reason = _oft_stage(events, received)
    row = Movement(
        id=f"oft:{guid}",
        mechanism="oft",
        group_key=guid,
        stage=stage,
        stage_reason=None if reason is None else reason + _in_words(said.get(guid)),
        message_id=guid,
    )
    if sent is not None:
        row = _with_sent(network, row, sent, _first(events, PacketSent))
    if received is not None:
        row = _with_received(network, row, received)
    return [row]


def _with_sent(
    network: Network, row: Movement, sent: OftSent, packet: PacketSent | None
) -> Movement:
    return replace(
        row,
        source_chain=sent.seen.chain,
        source_tx=sent.seen.tx_hash,
        source_address=sent.from_address,
        amount_in=sent.amount_sent,
        fee=sent.amount_sent - sent.amount_received,
        sent_at=sent.seen.block_time,
        dest_chain=network.chain_of_eid(sent.dst_eid),
        dest_address=_oft_recipient(network, sent, packet),
    )


def _with_received(network: Network, row: Movement, received: OftReceived) -> Movement:
    return replace(
        row,
        source_chain=row.source_chain or network.chain_of_eid(received.src_eid),
        dest_chain=received.seen.chain,
        dest_tx=received.seen.tx_hash,
        dest_address=received.to_address,
        amount_out=received.amount_received,
        delivered_at=received.seen.block_time,
    )


def _oft_stage(
    events: Sequence[Event], received: OftReceived | None
) -> tuple[MovementStage, str | None]:
    if received is not None:
        return "COMPLETED", None
    if _first(events, PacketVerified) is None:
        return "IN_FLIGHT", "waiting for the message layer to verify it"
    if _first(events, LzReceiveAlert) is not None:
        # An alert is a hint, anyone can emit one: it explains a wait and decides nothing.
        return "DELIVERING", "verified; an executor reports that its delivery failed"
    return "DELIVERING", "verified; waiting for its delivery"


def _oft_recipient(network: Network, sent: OftSent, packet: PacketSent | None) -> str | None:
    """On Stellar the chain decides at delivery whether it is an account or a contract."""
    if packet is None:
        return None
    chain = network.chain_of_eid(sent.dst_eid)
    if chain is not None and is_evm(chain):
        return bytes32_as_evm(packet.send_to) or packet.send_to
    return packet.send_to


def _first(events: Sequence[Event], kind: type[E]) -> E | None:
    return next((event for event in events if isinstance(event, kind)), None)


def _scale(network: Network, chain: ChainId | None) -> int:
    """CCTP's canonical 6 decimals to the chain's own base units."""
    return STELLAR_PER_SHARED if chain == network.stellar.id else 1
