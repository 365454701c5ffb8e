"""Matching: which burn, send or payment belongs to which transfer. Pure.

The 16-byte id in a burn's hook data is a label, not a proof: anyone can copy it. A burn is the
transfer's own if it agrees with what the transfer issued in every point. A burn that pays the same
recipient otherwise is an extra; one that pays another recipient is foreign.

OFT sends and payments carry no label. They are matched by sender, recipient, token and amount, in
chain order: transfers that agree in all of these are interchangeable.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.addresses import account_as_bytes32, contract_as_bytes32, evm_as_bytes32
from indexer.bridges.cctp.message import forward_recipient, parse_burn_body, transfer_tag
from indexer.bridges.oft.events import OftSent, PacketSent
from indexer.bridges.tokens.events import AssetMovement
from indexer.config.networks import Network, StellarChain
from indexer.movements.fold import STELLAR_PER_SHARED, Burn, Mint
from indexer.transfers.inputs import ChainPosition, TransferTerms
from warehouse_schema.identifiers import (
    Address,
    Bytes32,
    ChainId,
    EvmAddress,
    StellarAddress,
    TxHash,
    is_evm,
)

BurnMatch: TypeAlias = Literal["own", "extra", "foreign"]
"""The transfer's own; pays its recipient otherwise than agreed; pays another recipient."""

ANY_CALLER = Bytes32("0x" + "00" * 32)
"""Destination caller of a burn that anyone may deliver."""

BODY_START, BODY_SIZE = 68, 64
"""Offset and size of amount and sender in a burn body, side by side (BurnMessageV2.sol)."""


def payer(terms: TransferTerms) -> Address:
    """The address that burns or sends: the deposit address if there is one, else the user's."""
    return terms.source_address if terms.deposit_address is None else Address(terms.deposit_address)


def cctp_amount(network: Network, terms: TransferTerms) -> int:
    """Amount to be burned, in the 6 decimals of CCTP's events."""
    return terms.amount_in // _scale(network, terms.source_chain)


def min_extra_amount(network: Network, terms: TransferTerms) -> int:
    """Smallest extra burn that is delivered, in CCTP's 6 decimals."""
    return -(-terms.min_refund // _scale(network, terms.source_chain))


def amount_and_sender(network: Network, terms: TransferTerms) -> bytes:
    """Amount and sender as in the body of the transfer's burn message, side by side."""
    sender = bytes.fromhex(_word(terms.source_chain, payer(terms))[2:])
    return cctp_amount(network, terms).to_bytes(32, "big") + sender


@dataclass(frozen=True, slots=True)
class _Order:
    """Fields of a burn that both its event and the attested body contain."""

    source: ChainId
    domain: int
    token: Bytes32
    depositor: Bytes32
    amount: int
    """6 decimals."""
    mint_recipient: Bytes32
    hook_data: bytes


def match_burn(network: Network, terms: TransferTerms, burn: Burn) -> BurnMatch | None:
    """How a burn relates to a transfer; None without its label."""
    deposit = burn.deposit
    source = deposit.seen.chain
    order = _Order(
        source=source,
        domain=deposit.destination_domain,
        token=_word(source, deposit.burn_token),
        depositor=_word(source, deposit.depositor),
        amount=deposit.amount,
        mint_recipient=deposit.mint_recipient,
        hook_data=deposit.hook_data,
    )
    expected = _forwarder(network) if terms.dest_chain == network.stellar.id else ANY_CALLER
    is_deliverable = deposit.destination_caller == expected
    return _match(network, terms, order, is_deliverable=is_deliverable)


def match_mint(network: Network, terms: TransferTerms, mint: Mint) -> BurnMatch | None:
    """As `match_burn`, for a delivery whose burn may not have been read, by its attested body.

    The body has no destination caller; after the delivery that does not matter.
    """
    body = parse_burn_body(mint.message.message_body)
    source = network.chain_of_domain(mint.message.source_domain)
    destination = network.chain(mint.message.seen.chain).cctp_domain
    if body is None or source is None or destination is None:
        return None
    order = _Order(
        source=source,
        domain=destination,
        token=body.burn_token,
        depositor=body.message_sender,
        amount=body.amount,
        mint_recipient=body.mint_recipient,
        hook_data=body.hook_data,
    )
    return _match(network, terms, order, is_deliverable=True)


def _match(
    network: Network, terms: TransferTerms, order: _Order, *, is_deliverable: bool
) -> BurnMatch | None:
    if transfer_tag(order.hook_data) != bytes.fromhex(terms.id):
        return None
    if not is_deliverable or not _pays_recipient(network, terms, order):
        return "foreign"
    scale = _scale(network, order.source)
    is_agreed = (
        order.source == terms.source_chain
        and order.token == _word(terms.source_chain, terms.source_token)
        and order.depositor == _word(terms.source_chain, payer(terms))
        and order.amount * scale == terms.amount_in
    )
    return "own" if is_agreed else "extra"


def _pays_recipient(network: Network, terms: TransferTerms, order: _Order) -> bool:
    if order.domain != network.chain(terms.dest_chain).cctp_domain:
        return False
    if terms.dest_chain == network.stellar.id:
        is_forwarded = order.mint_recipient == _forwarder(network)
        paid: str | None = forward_recipient(order.hook_data)
        return is_forwarded and paid == terms.dest_address
    return order.mint_recipient == evm_as_bytes32(EvmAddress(terms.dest_address))


def _scale(network: Network, chain: ChainId) -> int:
    return STELLAR_PER_SHARED if chain == network.stellar.id else 1


def _forwarder(network: Network) -> Bytes32 | None:
    forwarder = network.stellar.cctp_forwarder
    return None if forwarder is None else contract_as_bytes32(forwarder)


def _word(chain: ChainId, address: Address) -> Bytes32:
    """An address as CCTP and the OFT encode it."""
    if is_evm(chain):
        return evm_as_bytes32(EvmAddress(address))
    if address.startswith("C"):
        return contract_as_bytes32(StellarAddress(address))
    return account_as_bytes32(StellarAddress(address))


@dataclass(frozen=True, slots=True, order=True)
class UnlabelledMovement:
    """A send or payment without a label. Sorts in chain order, within one chain."""

    place: ChainPosition
    """On the source chain."""
    id: str
    """oft:<guid>, or payment:<tx>:<position>."""
    mechanism: Literal["oft", "payment"]
    destination: ChainId
    sender: Address
    recipient: Bytes32
    token: Address
    amount: int
    """Source chain base units."""


def oft_movement(network: Network, sent: OftSent, packet: PacketSent) -> UnlabelledMovement | None:
    """The movement of an OFT send; None when its destination is no chain of ours."""
    chain = network.chain(sent.seen.chain)
    destination = network.chain_of_eid(sent.dst_eid)
    token = chain.usdt0_contract if isinstance(chain, StellarChain) else chain.usdt0
    if destination is None or token is None:
        return None
    return UnlabelledMovement(
        place=ChainPosition.of(sent.seen),
        id=f"oft:{sent.guid}",
        mechanism="oft",
        destination=destination,
        sender=sent.from_address,
        recipient=packet.send_to,
        token=Address(token),
        amount=sent.amount_sent,
    )


def payment_movement(stellar: StellarChain, movement: AssetMovement) -> UnlabelledMovement | None:
    """The movement of a payment between two Stellar holders; None for any other asset movement."""
    if movement.kind != "transfer" or movement.contract not in stellar.tokens:
        return None
    if movement.sender is None or movement.recipient is None:
        return None
    seen = movement.seen
    return UnlabelledMovement(
        place=ChainPosition.of(seen),
        id=f"payment:{seen.tx_hash}:{seen.position}",
        mechanism="payment",
        destination=seen.chain,
        sender=Address(movement.sender),
        recipient=_word(seen.chain, Address(movement.recipient)),
        token=Address(movement.contract),
        amount=movement.amount,
    )


_Kind: TypeAlias = tuple[str, ChainId, ChainId, str, Bytes32, str, int]


def assign_movements(
    transfers: Iterable[TransferTerms],
    moved: Iterable[UnlabelledMovement],
    named: Mapping[TxHash, Collection[str]],
) -> dict[str, tuple[UnlabelledMovement, ...]]:
    """Transfer id → its own sends and payments, in chain order.

    A transaction that was submitted for transfers (`named`: their ids; a bundle has several) is
    theirs if it is what was agreed. Any other goes to the oldest transfer that existed before it
    and has none yet. Whatever leaves a deposit address belongs to its one transfer.
    """
    by_kind: dict[_Kind, list[TransferTerms]] = defaultdict(list)
    for terms in sorted(transfers, key=lambda each: (each.started_at, each.id)):
        kind = (
            *(terms.mechanism, terms.source_chain, terms.dest_chain),
            *(payer(terms), _word(terms.dest_chain, terms.dest_address)),
            *(terms.source_token, terms.amount_in),
        )
        by_kind[kind].append(terms)
    given: dict[str, list[UnlabelledMovement]] = {}
    # Submitted ones first, or another movement could take their transfer.
    for each in sorted(moved, key=lambda each: (each.place.tx not in named, each)):
        equal = by_kind[
            *(each.mechanism, each.place.chain, each.destination),
            *(each.sender, each.recipient, each.token, each.amount),
        ]
        names = named.get(each.place.tx, ())
        own = [one for one in equal if one.id in names or one.deposit_address is not None]
        earlier = [one for one in equal if one.started_at <= each.place.at]
        free = (one.id for one in (*own, *earlier) if one.id not in given)
        # With no free transfer left, it is one more of its own transfer's.
        chosen = next(free, own[0].id if own else None)
        if chosen is not None:
            given.setdefault(chosen, []).append(each)
    return {transfer: tuple(sorted(own)) for transfer, own in given.items()}
