"""EVM logs to events: which contract, which topic, which decoder. The table is at the foot.

A log is `Event`, None or `Undecodable`: ours and well-formed, not ours, or ours and senseless.
None is for what the contracts say to others: another application's packets at the shared LayerZero
endpoint, and events that nobody here needs. Shapes: Circle's TokenMessengerV2 and
MessageTransmitterV2, LayerZero's IOFT and ILayerZeroEndpointV2, ERC-20, our DepositFactory.

An ABI encoder leaves the unused high bits of a word zero. A word that has them set did not come
from the contract we think it did, so it is refused, not truncated.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from eth_utils.crypto import keccak

from indexer.addresses import evm_as_bytes32
from indexer.decode.cctp_message import burn_key, parse_message
from indexer.decode.lz_packet import guid_of, parse_oft_message, parse_packet, sender_of
from indexer.errors import ConfigurationError, Undecodable
from indexer.events.cctp import DepositForBurn, MessageReceived, MessageSent, MintAndWithdraw
from indexer.events.common import Event
from indexer.events.oft import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.events.raw import EvmLog
from indexer.events.tokens import DepositRefunded, Erc20Transfer
from indexer.networks import EvmChain
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    Bytes32,
    EvmAddress,
    bytes32,
    parse_bytes32,
)

Decoder: TypeAlias = Callable[[EvmLog, EvmChain], Event | None]
Known = TypeVar("Known")

WORD = 32


def decode(log: EvmLog, chain: EvmChain) -> Event | None:
    """The event that a log of `chain` is; None when it is not ours.

    Raises `Undecodable` when it is ours and does not have the shape it must have.
    """
    if not log.topics:
        return None
    found = _decoders_of(chain).get((log.address, log.topics[0]))
    if found is None:
        return None
    name, decoder = found
    try:
        return decoder(log, chain)
    except Undecodable as error:
        raise Undecodable(f"{name} of {log.address} in {log.seen.tx_hash}: {error}") from error


def topics_of_interest(chain: EvmChain) -> Mapping[EvmAddress, tuple[str, ...]]:
    """First topics to ask for, by event contract.

    Token transfers are not among them: a log filter asks for those by recipient
    (`TRANSFER_TOPIC`).
    """
    tokens = set(chain.tokens)
    topics: dict[EvmAddress, tuple[str, ...]] = {}
    for address, topic in _decoders_of(chain):
        if not (address in tokens and topic == TRANSFER_TOPIC):
            topics[address] = (*topics.get(address, ()), topic)
    return MappingProxyType(topics)


def topic_of(signature: str) -> str:
    """Topic 0 of an event: keccak256 of its signature."""
    return "0x" + keccak(text=signature).hex()


@cache
def _decoders_of(chain: EvmChain) -> dict[tuple[EvmAddress, str], tuple[str, Decoder]]:
    """(contract, topic 0) → (event name, decoder), for the contracts that this chain has."""
    return {
        (address, topic_of(signature)): (signature.partition("(")[0], decoder)
        for role, address in _roles(chain)
        for signature, decoder in DECODERS[role].items()
    }


def _roles(chain: EvmChain) -> Iterator[tuple[str, EvmAddress]]:
    named = {
        "token_messenger": chain.cctp_token_messenger,
        "message_transmitter": chain.cctp_message_transmitter,
        "oft": chain.oft,
        "lz_endpoint": chain.lz_endpoint,
        "deposit_factory": chain.deposit_factory,
    }
    yield from ((role, address) for role, address in named.items() if address is not None)
    yield from (("token", address) for address in chain.tokens)


# CCTP


def _deposit_for_burn(log: EvmLog, _chain: EvmChain) -> DepositForBurn:
    _, burn_token, depositor, threshold = _topics(log, 4)
    return DepositForBurn(
        seen=log.seen,
        burn_token=_topic_address(burn_token),
        amount=_shared_amount(log, 0),
        depositor=_topic_address(depositor),
        mint_recipient=_bytes32(log, 1),
        destination_domain=_uint(log, 2, 32),
        destination_token_messenger=_bytes32(log, 3),
        destination_caller=_bytes32(log, 4),
        max_fee=_amount(log, 5),
        min_finality_threshold=_topic_uint(threshold, 32),
        hook_data=_bytes(log, 6),
    )


def _mint_and_withdraw(log: EvmLog, _chain: EvmChain) -> MintAndWithdraw:
    _, recipient, token = _topics(log, 3)
    _expect_words(log, 2)
    return MintAndWithdraw(
        seen=log.seen,
        mint_recipient=_topic_address(recipient),
        amount=_shared_amount(log, 0),
        mint_token=_topic_address(token),
        fee_collected=_shared_amount(log, 1),
    )


def _message_sent(log: EvmLog, chain: EvmChain) -> MessageSent:
    _topics(log, 1)
    raw = _bytes(log, 0)
    message = parse_message(raw)
    if message.source_domain != chain.cctp_domain:
        raise Undecodable(
            f"the message says source domain {message.source_domain}, the chain is"
            f" {chain.cctp_domain}"
        )
    # The transmitter puts the caller into `sender`: only the messenger's own messages are burns,
    # whatever somebody else writes into a body.
    is_burn = chain.cctp_token_messenger is not None and message.sender == evm_as_bytes32(
        chain.cctp_token_messenger
    )
    return MessageSent(
        seen=log.seen,
        message=raw,
        source_domain=message.source_domain,
        destination_domain=message.destination_domain,
        sender=message.sender,
        recipient=message.recipient,
        burn_key=burn_key(
            message.source_domain, message.destination_domain, message.sender, message.raw_body
        )
        if is_burn
        else None,
    )


def _message_received(log: EvmLog, chain: EvmChain) -> MessageReceived:
    _, caller, nonce, threshold = _topics(log, 4)
    source_domain, sender, body = _uint(log, 0, 32), _bytes32(log, 1), _bytes(log, 2)
    return MessageReceived(
        seen=log.seen,
        caller=_topic_address(caller),
        source_domain=source_domain,
        nonce=_topic_bytes32(nonce),
        sender=sender,
        finality_threshold_executed=_topic_uint(threshold, 32),
        message_body=body,
        # The event has no destination domain: it is here.
        burn_key=burn_key(source_domain, _known(chain.cctp_domain, "cctp_domain"), sender, body),
    )


def _cctp_v1(_log: EvmLog, _chain: EvmChain) -> Event:
    raise Undecodable("this is an event of CCTP V1: the configured contract is not a V2 one")


# OFT and LayerZero endpoint


def _oft_sent(log: EvmLog, _chain: EvmChain) -> OftSent:
    _, guid, sender = _topics(log, 3)
    _expect_words(log, 3)
    return OftSent(
        seen=log.seen,
        guid=_topic_bytes32(guid),
        dst_eid=_uint(log, 0, 32),
        from_address=_topic_address(sender),
        amount_sent=_amount(log, 1),
        amount_received=_amount(log, 2),
    )


def _oft_received(log: EvmLog, _chain: EvmChain) -> OftReceived:
    _, guid, recipient = _topics(log, 3)
    _expect_words(log, 2)
    return OftReceived(
        seen=log.seen,
        guid=_topic_bytes32(guid),
        src_eid=_uint(log, 0, 32),
        to_address=_topic_address(recipient),
        amount_received=_amount(log, 1),
    )


def _packet_sent(log: EvmLog, chain: EvmChain) -> PacketSent | None:
    _topics(log, 1)
    raw = _bytes(log, 0)
    # Asked of the bytes, before they are parsed: another application's packet may be malformed.
    if sender_of(raw) != evm_as_bytes32(_known(chain.oft, "oft")):
        return None
    packet = parse_packet(raw)
    if packet.src_eid != chain.lz_eid:
        raise Undecodable(f"the packet says source {packet.src_eid}, the chain is {chain.lz_eid}")
    message = parse_oft_message(packet.message)
    return PacketSent(
        seen=log.seen,
        guid=packet.guid,
        nonce=packet.nonce,
        src_eid=packet.src_eid,
        sender=packet.sender,
        dst_eid=packet.dst_eid,
        receiver=packet.receiver,
        send_to=message.send_to,
        amount_shared=message.amount_shared,
        packet=raw,
        options=_bytes(log, 1),
        send_library=_address(log, 2),
    )


def _packet_verified(log: EvmLog, chain: EvmChain) -> PacketVerified | None:
    _topics(log, 1)
    _expect_words(log, 5)
    receiver = _address(log, 3)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return PacketVerified(
        seen=log.seen,
        guid=_local_guid(chain, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
        payload_hash=_bytes32(log, 4),
    )


def _packet_delivered(log: EvmLog, chain: EvmChain) -> PacketDelivered | None:
    _topics(log, 1)
    _expect_words(log, 4)
    receiver = _address(log, 3)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return PacketDelivered(
        seen=log.seen,
        guid=_local_guid(chain, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
    )


def _lz_receive_alert(log: EvmLog, chain: EvmChain) -> LzReceiveAlert | None:
    _, receiver_topic, executor = _topics(log, 3)
    receiver = _topic_address(receiver_topic)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return LzReceiveAlert(
        seen=log.seen,
        # As the alert says it: anyone can emit one, so it may even not be its origin's.
        guid=_bytes32(log, 3),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
        executor=_topic_address(executor),
        gas=_amount(log, 4),
        value=_amount(log, 5),
        message=_bytes(log, 6),
        extra_data=_bytes(log, 7),
        reason=_bytes(log, 8),
    )


def _origin(log: EvmLog) -> tuple[int, Bytes32, int]:
    """Source endpoint, sender and nonce: the `Origin` in the first three words."""
    return _uint(log, 0, 32), _bytes32(log, 1), _uint(log, 2, 64)


def _is_ours(receiver: Address, chain: EvmChain) -> bool:
    return receiver == Address(_known(chain.oft, "oft"))


def _local_guid(chain: EvmChain, src_eid: int, sender: Bytes32, nonce: int) -> Bytes32:
    """The guid of a packet that came here, to our OFT."""
    receiver = evm_as_bytes32(_known(chain.oft, "oft"))
    return guid_of(nonce, src_eid, sender, _known(chain.lz_eid, "lz_eid"), receiver)


# ERC-20


def _transfer(log: EvmLog, _chain: EvmChain) -> Erc20Transfer:
    _, sender, recipient = _topics(log, 3)
    _expect_words(log, 1)
    return Erc20Transfer(
        seen=log.seen,
        token=log.address,
        sender=EvmAddress(_topic_address(sender)),
        recipient=EvmAddress(_topic_address(recipient)),
        amount=_amount(log, 0),
    )


# Deposit addresses


def _refunded(log: EvmLog, chain: EvmChain) -> DepositRefunded | None:
    _, deposit, token_topic = _topics(log, 3)
    _expect_words(log, 2)
    token = EvmAddress(_topic_address(token_topic))
    # Another token may say of its balances what it likes; the native coin is the zero address.
    if token not in chain.tokens:
        return None
    return DepositRefunded(
        seen=log.seen,
        deposit=EvmAddress(_topic_address(deposit)),
        token=token,
        refund_to=EvmAddress(_address(log, 0)),
        amount=_amount(log, 1),
    )


# Words of the ABI


def _topics(log: EvmLog, count: int) -> tuple[str, ...]:
    if len(log.topics) != count:
        raise Undecodable(f"it has {len(log.topics)} topics, not {count}")
    return log.topics


def _topic_bytes32(topic: str) -> Bytes32:
    try:
        return parse_bytes32(topic)
    except ValueError as error:
        raise Undecodable(f"topic {error}") from error


def _topic_uint(topic: str, bits: int) -> int:
    return _narrow(int(_topic_bytes32(topic), 16), bits)


def _topic_address(topic: str) -> Address:
    return Address(f"0x{_topic_uint(topic, 160):040x}")


def _expect_words(log: EvmLog, count: int) -> None:
    if len(log.data) != count * WORD:
        raise Undecodable(f"its data has {len(log.data)} bytes, not {count * WORD}")


def _word(log: EvmLog, index: int) -> bytes:
    return _slice(log.data, index * WORD, WORD)


def _bytes32(log: EvmLog, index: int) -> Bytes32:
    return bytes32(_word(log, index))


def _uint(log: EvmLog, index: int, bits: int) -> int:
    return _narrow(int.from_bytes(_word(log, index), "big"), bits)


def _amount(log: EvmLog, index: int) -> BaseUnits:
    return BaseUnits(_uint(log, index, 256))


def _shared_amount(log: EvmLog, index: int) -> BaseUnits:
    """An amount of CCTP's 6 decimals; ten times as much, as Stellar has it, is a uint256 too."""
    return BaseUnits(_uint(log, index, 252))


def _address(log: EvmLog, index: int) -> Address:
    return Address(f"0x{_uint(log, index, 160):040x}")


def _bytes(log: EvmLog, index: int) -> bytes:
    """A `bytes` argument: its word holds the offset of a length and that many bytes."""
    start = _uint(log, index, 256)
    length = int.from_bytes(_slice(log.data, start, WORD), "big")
    return _slice(log.data, start + WORD, length)


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise Undecodable(
            f"its data has {len(data)} bytes, and {size} at offset {start} are asked for"
        )
    return data[start : start + size]


def _narrow(value: int, bits: int) -> int:
    if value >> bits:
        raise Undecodable(f"{value:#x} does not fit {bits} bits")
    return value


def _known(value: Known | None, key: str) -> Known:
    """A setting that the network file gives along with the contract whose log this is."""
    if value is None:
        raise ConfigurationError(f"{key} is missing: the chain has contracts that need it")
    return value


DECODERS: Mapping[str, Mapping[str, Decoder]] = {
    "token_messenger": {
        "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32"
        ",bytes)": _deposit_for_burn,
        "MintAndWithdraw(address,uint256,address,uint256)": _mint_and_withdraw,
        "DepositForBurn(uint64,address,uint256,address,bytes32,uint32,bytes32,bytes32)": _cctp_v1,
        "MintAndWithdraw(address,uint256,address)": _cctp_v1,
    },
    "message_transmitter": {
        "MessageSent(bytes)": _message_sent,
        "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": _message_received,
        "MessageReceived(address,uint32,uint64,bytes32,bytes)": _cctp_v1,
    },
    "oft": {
        "OFTSent(bytes32,uint32,address,uint256,uint256)": _oft_sent,
        "OFTReceived(bytes32,uint32,address,uint256)": _oft_received,
    },
    "lz_endpoint": {
        "PacketSent(bytes,bytes,address)": _packet_sent,
        "PacketVerified((uint32,bytes32,uint64),address,bytes32)": _packet_verified,
        "PacketDelivered((uint32,bytes32,uint64),address)": _packet_delivered,
        "LzReceiveAlert(address,address,(uint32,bytes32,uint64),bytes32,uint256,uint256,bytes"
        ",bytes,bytes)": _lz_receive_alert,
    },
    "deposit_factory": {
        "Refunded(address,address,address,uint256)": _refunded,
    },
    "token": {
        "Transfer(address,address,uint256)": _transfer,
    },
}
"""Contract → event signature → decoder."""

TRANSFER_TOPIC = topic_of("Transfer(address,address,uint256)")
