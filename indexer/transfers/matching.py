"""Which burn, send or payment belongs to which transfer. Pure.

The 16-byte id that a burn carries is a label, not a proof: anybody can write one. A burn claims its
transfer when it is, in every point, what the transfer issued. One that pays the same recipient
otherwise is delivered too and linked to it; one that would pay somebody else is neither.

OFT sends and payments carry no label. They are matched by what they move, from whom to whom, in the
order in which they were made: two transfers that agree in all of that are interchangeable, so which
of them a send completes first costs nobody anything.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.addresses import (
    account_as_bytes32,
    contract_as_bytes32,
    evm_as_bytes32,
)
from indexer.bridges.cctp.message import forward_recipient, parse_burn_body, transfer_tag
from indexer.bridges.oft.events import OftSent, PacketSent
from indexer.bridges.tokens.events import AssetMovement
from indexer.config.networks import Chain, Network, StellarChain
from indexer.movements.fold import STELLAR_PER_SHARED, Burn, Mint
from indexer.transfers.inputs import ChainPosition, TransferTerms
from warehouse_schema.identifiers import (
    Address,
    Bytes32,
    ChainId,
    EvmAddress,
    StellarAddress,
    TxHash,
    UnixSeconds,
    is_evm,
)

BurnMatch: TypeAlias = Literal["own", "extra", "foreign"]
"""Is the transfer's own; pays its recipient otherwise than agreed; would pay somebody else."""

ANY_CALLER = Bytes32("0x" + "00" * 32)
"""Destination caller of a burn that anybody may deliver."""


BODY_START, BODY_SIZE = 68, 64
"""Where amount and sender stand in a burn body, side by side (BurnMessageV2.sol)."""


def payer(terms: TransferTerms) -> Address:
    """Who burns or sends: the deposit address where there is one, else the user."""
    return terms.source_address if terms.deposit_address is None else Address(terms.deposit_address)


def cctp_amount(network: Network, terms: TransferTerms) -> int:
    """What is to be burned in CCTP's 6 decimals, in which its events say it."""
    return terms.amount_in // _scale(network, terms.source_chain)


def min_extra_amount(network: Network, terms: TransferTerms) -> int:
    """Least that somebody goes to expense for beside what was agreed, in CCTP's 6 decimals."""
    return -(-terms.min_refund // _scale(network, terms.source_chain))


def amount_and_sender(network: Network, terms: TransferTerms) -> bytes:
    """Amount and sender as the body of the transfer's burn message has them, side by side."""
    sender = _word(terms.source_chain, payer(terms))
    return cctp_amount(network, terms).to_bytes(32, "big") + bytes.fromhex(sender[2:])


@dataclass(frozen=True, slots=True)
class _Order:
    """What a burn orders, as both its own event and the attested body say it."""

    source: ChainId
    domain: int
    token: Bytes32
    depositor: Bytes32
    amount: int
    """6 decimals."""
    mint_recipient: Bytes32
    hook_data: bytes


def match_burn(network: Network, terms: TransferTerms, burn: Burn) -> BurnMatch | None:
    """What a burn is to a transfer; None when it does not bear its id."""
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
    return _judge(network, terms, order, is_deliverable=is_deliverable)


def match_mint(network: Network, terms: TransferTerms, mint: Mint) -> BurnMatch | None:
    """As `match_burn`, of a delivery whose burn may not have been read: its attested body says it.

    Who was to call is not in it, and does not matter once somebody has.
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
    return _judge(network, terms, order, is_deliverable=True)


def _judge(
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
    """An address as CCTP and the OFT write it."""
    if is_evm(chain):
        return evm_as_bytes32(EvmAddress(address))
    if address.startswith("C"):
        return contract_as_bytes32(StellarAddress(address))
    return account_as_bytes32(StellarAddress(address))


# Without a label.


@dataclass(frozen=True, slots=True, order=True)
class UnlabelledMovement:
    """A send or payment that carries no label. Orders as it happened, within one chain."""

    at: UnixSeconds
    height: int
    position: int
    id: str
    """oft:<guid>, or the payment's place."""
    tx: TxHash
    mechanism: Literal["oft", "payment"]
    source: ChainId
    destination: ChainId
    sender: Address
    recipient: Bytes32
    token: Address
    amount: int
    """Source chain base units."""

    @property
    def place(self) -> ChainPosition:
        """Where it was seen."""
        return ChainPosition(self.height, self.position, self.source, self.tx, self.at)


def oft_movement(network: Network, sent: OftSent, packet: PacketSent) -> UnlabelledMovement | None:
    """An OFT send as what it moves; None when it goes to no chain of ours."""
    seen = sent.seen
    destination = network.chain_of_eid(sent.dst_eid)
    token = _oft_token(network.chain(seen.chain))
    if destination is None or token is None:
        return None
    return UnlabelledMovement(
        at=seen.block_time,
        height=seen.height,
        position=seen.position,
        id=f"oft:{sent.guid}",
        tx=seen.tx_hash,
        mechanism="oft",
        source=seen.chain,
        destination=destination,
        sender=sent.from_address,
        recipient=packet.send_to,
        token=token,
        amount=sent.amount_sent,
    )


def _oft_token(chain: Chain) -> Address | None:
    token = chain.usdt0_contract if isinstance(chain, StellarChain) else chain.usdt0
    return None if token is None else Address(token)


def payment_movement(stellar: StellarChain, movement: AssetMovement) -> UnlabelledMovement | None:
    """A payment between two holders on Stellar as what it moves; None for any other movement."""
    is_ours = movement.contract in stellar.tokens
    if movement.kind != "transfer" or not is_ours:
        return None
    if movement.sender is None or movement.recipient is None:
        return None
    seen = movement.seen
    return UnlabelledMovement(
        at=seen.block_time,
        height=seen.height,
        position=seen.position,
        id=f"payment:{seen.tx_hash}:{seen.position}",
        tx=seen.tx_hash,
        mechanism="payment",
        source=seen.chain,
        destination=seen.chain,
        sender=Address(movement.sender),
        recipient=_word(seen.chain, Address(movement.recipient)),
        token=Address(movement.contract),
        amount=movement.amount,
    )


def assign_movements(
    transfers: Iterable[TransferTerms],
    moved: Iterable[UnlabelledMovement],
    named: Mapping[TxHash, Collection[str]],
) -> dict[str, tuple[UnlabelledMovement, ...]]:
    """Transfer id → the sends and payments that are its own, first to last.

    A transaction that was submitted for a transfer is that transfer's (`named`: their ids), if it
    is what was agreed; a bundle may be that of several. Any other goes to the oldest transfer that
    was there before it and has none yet. A deposit address serves one transfer, so all that leaves
    it is that one's.
    """
    alike: dict[_Kind, list[TransferTerms]] = defaultdict(list)
    for terms in sorted(transfers, key=lambda each: (each.started_at, each.id)):
        alike[_kind_of_terms(terms)].append(terms)
    given: dict[str, tuple[UnlabelledMovement, ...]] = {}
    # What was submitted first, or another one could take a transfer from it.
    for each in sorted(moved, key=lambda each: (each.tx not in named, each)):
        chosen = _choose(alike[_kind_of(each)], each, named.get(each.tx, ()), given)
        if chosen is not None:
            given[chosen] = (*given.get(chosen, ()), each)
    return {transfer: tuple(sorted(own)) for transfer, own in given.items()}


def _choose(
    alike: Sequence[TransferTerms],
    moved: UnlabelledMovement,
    named: Collection[str],
    given: Collection[str],
) -> str | None:
    own = [each for each in alike if each.id in named or each.deposit_address is not None]
    earlier = [each for each in alike if each.started_at <= moved.at]
    free = (each.id for each in (*own, *earlier) if each.id not in given)
    # What nobody else can be waiting for is one more of whose transaction it is.
    return next(free, own[0].id if own else None)


_Kind: TypeAlias = tuple[str, ChainId, ChainId, str, Bytes32, str, int]


def _kind_of(moved: UnlabelledMovement) -> _Kind:
    return (
        *(moved.mechanism, moved.source, moved.destination),
        *(moved.sender, moved.recipient, moved.token, moved.amount),
    )


def _kind_of_terms(terms: TransferTerms) -> _Kind:
    return (
        *(terms.mechanism, terms.source_chain, terms.dest_chain),
        *(payer(terms), _word(terms.dest_chain, terms.dest_address)),
        *(terms.source_token, terms.amount_in),
    )
