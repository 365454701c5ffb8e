"""What moved between chains, with the amount on either side and who says so.

One side is rarely recorded together with the other. What the other side did is then taken from the
message between them, and said to be: the attested message tells amount and fee, and the burn
message inside a mint tells what was burned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent, MintAndForward
from indexer.bridges.cctp.events import MintAndWithdraw as Minted
from indexer.bridges.cctp.message import (
    BurnMessage,
    CctpMessage,
    burn_key,
    forward_recipient,
    parse_burn_body,
)
from indexer.bridges.oft.events import PacketSent
from indexer.chains.events import Event
from indexer.config.networks import Network
from indexer.movements.fold import STELLAR_PER_SHARED, Movement
from warehouse_schema.identifiers import Bytes32, ChainId

SHARED_DECIMALS = 6

_NO_MINT = "the mint was not recorded"


@dataclass(frozen=True, slots=True)
class Amount:
    """Base units, and who says so. `decimals` is None where the token was not recorded."""

    units: int
    decimals: int | None
    told_by: str

    def __str__(self) -> str:
        if self.decimals is None:
            return str(self.units)
        return f"{self.units} = {decimal(self.units, self.decimals)}"


@dataclass(frozen=True, slots=True)
class ReplayedMovement:
    """One movement; a side that nothing recorded tells of is None."""

    network: str
    mechanism: str
    stage: str
    """As folded in the warehouse; `-` for what was never folded, because a part is missing."""
    source: str
    destination: str
    source_tx: str | None
    dest_tx: str | None
    sent: Amount | None
    arrived: Amount | None
    fee: Amount | None
    note: str


def decimal(units: int, decimals: int) -> str:
    """`decimal(1234567, 6)` is 1.234567: for the eye, without floats."""
    whole, part = divmod(units, 10**decimals)
    return f"{whole}.{part:0{decimals}d}"


def movements(
    network: Network,
    folded: Sequence[Movement],
    events: Sequence[Event],
    messages: Mapping[Bytes32, CctpMessage],
) -> list[ReplayedMovement]:
    """Every movement of a network: folded ones, halves that fold to none, attested messages.

    `events` are all typed events of its warehouse, `messages` attested messages by burn key.
    """
    story = _Story(network, events)
    seen = {row.group_key for row in folded}
    return [
        *(story.of_row(row, messages) for row in folded),
        *story.of_halves(),
        *(story.of_message(message) for key, message in messages.items() if key not in seen),
    ]


def key_of(message: CctpMessage) -> Bytes32 | None:
    """The burn key of an attested message, as either chain's events have it."""
    return burn_key(
        message.source_domain, message.destination_domain, message.sender, message.raw_body
    )


class _Story:
    """Tells movements of one network from its events."""

    def __init__(self, network: Network, events: Sequence[Event]) -> None:
        self._network = network
        self._events = events
        self._received = {
            event.burn_key: event for event in events if isinstance(event, MessageReceived)
        }
        self._burned: dict[str, DepositForBurn] = {
            event.seen.tx_hash: event for event in events if isinstance(event, DepositForBurn)
        }
        self._packets = {event.guid: event for event in events if isinstance(event, PacketSent)}

    def of_row(self, row: Movement, messages: Mapping[Bytes32, CctpMessage]) -> ReplayedMovement:
        """A movement that the warehouse folded."""
        if row.mechanism == "oft":
            sent, arrived, note = self._oft_sides(row)
            destination = self._oft_destination(row)
        else:
            message = messages.get(Bytes32(row.group_key))
            sent, arrived, note = self._cctp_sides(row, message)
            destination = self._name(row.dest_chain)
        return ReplayedMovement(
            network=self._network.name,
            mechanism=row.mechanism,
            stage=row.stage,
            source=self._name(row.source_chain),
            destination=destination,
            source_tx=row.source_tx,
            dest_tx=row.dest_tx,
            sent=sent,
            arrived=arrived,
            fee=self._fee(row),
            note="; ".join(part for part in (row.stage_reason, note) if part),
        )

    def of_halves(self) -> Iterator[ReplayedMovement]:
        """Burns without their message, and payments onwards without their mint."""
        sending = _transactions_of(self._events, MessageSent)
        minting = _transactions_of(self._events, Minted)
        for event in self._events:
            if isinstance(event, DepositForBurn) and event.seen.tx_hash not in sending:
                yield self._of_burn(event)
            elif isinstance(event, MintAndForward) and event.seen.tx_hash not in minting:
                yield self._of_forward(event)

    def of_message(self, message: CctpMessage) -> ReplayedMovement:
        """A movement of which neither side's events were recorded."""
        body = _body(message.raw_body)
        source = self._network.chain_of_domain(message.source_domain)
        destination = self._network.chain_of_domain(message.destination_domain)
        return ReplayedMovement(
            network=self._network.name,
            mechanism="cctp",
            stage="-",
            source=self._name(source),
            destination=self._name(destination),
            source_tx=None,
            dest_tx=None,
            sent=self._usdc(body.amount, source, "attested message"),
            arrived=self._attested(message, destination),
            fee=self._usdc(body.fee_executed, source, "attested message"),
            note=self._note_of(message, body),
        )

    def _note_of(self, message: CctpMessage, body: BurnMessage) -> str:
        note = "no event of either side was recorded"
        is_forwarded = message.destination_domain == self._network.stellar.cctp_domain
        if is_forwarded and forward_recipient(body.hook_data) is None:
            return f"{note}; its hook data names nobody, so Stellar's forwarder cannot mint it"
        return note

    # CCTP

    def _cctp_sides(
        self, row: Movement, message: CctpMessage | None
    ) -> tuple[Amount | None, Amount | None, str]:
        sent = self._folded(row.amount_in, row.source_chain, "deposit_for_burn")
        arrived = self._folded(row.amount_out, row.dest_chain, "mint_and_withdraw")
        received = self._received.get(Bytes32(row.group_key))
        burned = None if row.source_tx is None else self._burned.get(row.source_tx)
        if sent is None and received is not None:
            body = _body(received.message_body)
            sent = self._usdc(body.amount, row.source_chain, "burn message inside the mint")
            not_recorded = "the burn's own events were not recorded"
            if row.stage == "ON_HOLD":
                not_recorded += ", nor the forwarder's payment"
            return sent, arrived, not_recorded
        if arrived is None and message is not None:
            return sent, self._attested(message, row.dest_chain), _NO_MINT
        if arrived is None and burned is not None:
            return sent, self._least(burned, row.dest_chain), _NO_MINT
        return sent, arrived, ""

    def _attested(self, message: CctpMessage, chain: ChainId | None) -> Amount:
        body = _body(message.raw_body)
        return self._usdc(body.amount - body.fee_executed, chain, "attested message: amount - fee")

    def _of_burn(self, burn: DepositForBurn) -> ReplayedMovement:
        destination = self._network.chain_of_domain(burn.destination_domain)
        return ReplayedMovement(
            network=self._network.name,
            mechanism="cctp",
            stage="-",
            source=self._name(burn.seen.chain),
            destination=self._name(destination),
            source_tx=burn.seen.tx_hash,
            dest_tx=None,
            sent=self._usdc(burn.amount, burn.seen.chain, "deposit_for_burn"),
            arrived=self._least(burn, destination),
            fee=None,
            note="the burn's message and its mint were not recorded",
        )

    def _of_forward(self, forward: MintAndForward) -> ReplayedMovement:
        return ReplayedMovement(
            network=self._network.name,
            mechanism="cctp",
            stage="-",
            source="not recorded",
            destination=self._name(forward.seen.chain),
            source_tx=None,
            dest_tx=forward.seen.tx_hash,
            sent=None,
            arrived=Amount(forward.amount, self._decimals(forward.seen.chain), "mint_and_forward"),
            fee=None,
            note="only the forwarder's payment was recorded",
        )

    def _least(self, burn: DepositForBurn, destination: ChainId | None) -> Amount:
        """What must arrive at the least: the attestation service may take up to the maximum fee."""
        told_by = "no less than: burn's amount - max fee"
        return self._usdc(burn.amount - burn.max_fee, destination, told_by)

    def _fee(self, row: Movement) -> Amount | None:
        if row.fee is None:
            return None
        told_by = "mint_and_withdraw" if row.mechanism == "cctp" else "oft_sent"
        return self._folded(row.fee, row.source_chain, told_by)

    def _usdc(self, shared: int, chain: ChainId | None, told_by: str) -> Amount:
        """CCTP's 6 decimals in the base units of a chain's USDC."""
        scale = STELLAR_PER_SHARED if chain == self._network.stellar.id else 1
        return Amount(shared * scale, self._decimals(chain), told_by)

    # OFT

    def _oft_sides(self, row: Movement) -> tuple[Amount | None, Amount | None, str]:
        if row.amount_in is None:
            # Which token that OFT moves was not recorded, so neither were its decimals.
            received = Amount(row.amount_out or 0, None, "OFTReceived")
            return None, received, "the send was not recorded"
        sent = self._folded(row.amount_in, row.source_chain, "oft_sent")
        packet = self._packets.get(Bytes32(row.group_key))
        if row.amount_out is not None or packet is None:
            arrived = self._folded(row.amount_out, row.dest_chain, "oft_received")
            return sent, arrived, ""
        told_by = "packet's amountSD, shared decimals"
        return sent, Amount(packet.amount_shared, SHARED_DECIMALS, told_by), ""

    def _oft_destination(self, row: Movement) -> str:
        packet = self._packets.get(Bytes32(row.group_key))
        if row.dest_chain is None and packet is not None:
            return f"endpoint {packet.dst_eid}"
        return self._name(row.dest_chain)

    # Names and units

    def _folded(self, units: int | None, chain: ChainId | None, told_by: str) -> Amount | None:
        """An amount that the warehouse holds in the chain's own base units."""
        return None if units is None else Amount(units, self._decimals(chain), told_by)

    def _decimals(self, chain: ChainId | None) -> int:
        return SHARED_DECIMALS + (chain == self._network.stellar.id)

    def _name(self, chain: ChainId | None) -> str:
        return "not recorded" if chain is None else self._network.chain(chain).name


def _body(raw: bytes) -> BurnMessage:
    body = parse_burn_body(raw)
    if body is None:
        raise ValueError("a recorded CCTP message has no burn body")
    return body


def _transactions_of(events: Sequence[Event], kind: type[Event]) -> set[str]:
    return {event.seen.tx_hash for event in events if isinstance(event, kind)}
