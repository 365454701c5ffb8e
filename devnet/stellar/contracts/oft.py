"""LayerZero V2 on Stellar: an endpoint, and the OFT that burns and mints USDT0.

Packets are PacketV1Codec, a plain transfer's message is 40 bytes: recipient and amount in 6
decimals. Amounts in calls and events have 7. Errors are numbered as in LayerZero's Stellar
contracts. A send pays its messaging fee in XLM, at a flat price on the devnet.
"""

from dataclasses import dataclass
from typing import Annotated

from eth_hash.auto import keccak
from stellar_sdk import StrKey, scval, xdr

from devnet.evm_messages import Packet, oft_message
from devnet.stellar.contracts.cctp_messages import raw_key
from devnet.stellar.host import CONSTRUCTOR, Contract, exported
from devnet.stellar.values import (
    BYTES32,
    I128,
    U64,
    Address,
    Bool,
    Bytes,
    Bytes32,
    Int128,
    MaybeBytes32,
    Uint32,
    Uint64,
    key,
    pair,
    sequence,
    struct,
    triple,
)

DUST = 10
"""Stroops in one unit of the shared 6 decimals."""
NATIVE_FEE = 4_500_000
"""Stroops of XLM that the endpoint asks for one message."""
ENFORCED_OPTIONS = bytes.fromhex("00030100110100000000000000000000000000013880")
"""Type 3, one lzReceive option of 80,000 gas: what the USDT0 OFT enforces toward Ethereum."""
INBOUND_WINDOW = 256
MOST_AT_ONCE = 2**64 - 1
"""The OFT's value for no rate limit."""
PLAIN_MESSAGE = 40

INSUFFICIENT_FEE = 6
INVALID_NONCE = 11
PATH_NOT_VERIFIABLE = 19
PAYLOAD_NOT_FOUND = 20
UNAUTHORIZED = 22
UNSUPPORTED_EID = 23
BAD_PACKET = 1100
INVALID_OPTIONS = 2000
NO_PEER = 2001
ONLY_PEER = 2002
INVALID_AMOUNT = 3001
SLIPPAGE = 3005

_CONFIG = key("Config")


@dataclass(frozen=True)
class SendParam:
    """Parameters of a send; amounts in stroops."""

    amount_ld: Int128
    compose_msg: Bytes
    dst_eid: Uint32
    extra_options: Bytes
    min_amount_ld: Int128
    oft_cmd: Bytes
    to: Bytes32


@dataclass(frozen=True)
class MessagingFee:
    """Stroops of XLM offered or required for a message."""

    native_fee: Int128
    zro_fee: Int128


@dataclass(frozen=True)
class MessagingReceipt:
    """The message that a send became."""

    fee: MessagingFee
    guid: Bytes32
    nonce: Uint64


@dataclass(frozen=True)
class OftReceipt:
    """Stroops debited here, and credited there (in this chain's decimals)."""

    amount_received_ld: Int128
    amount_sent_ld: Int128


Sent = Annotated[
    tuple[MessagingReceipt, OftReceipt], pair(struct(MessagingReceipt), struct(OftReceipt))
]
"""Return value of `send`."""


@dataclass(frozen=True)
class OftLimit:
    """Stroops that may be sent at once."""

    max_amount_ld: Int128
    min_amount_ld: Int128


@dataclass(frozen=True)
class OftFeeDetail:
    """A fee of the OFT, stroops; there is none on the devnet."""

    description: Bytes
    fee_amount_ld: Int128


Quoted = Annotated[
    tuple[OftLimit, list[OftFeeDetail], OftReceipt],
    triple(struct(OftLimit), sequence(struct(OftFeeDetail)), struct(OftReceipt)),
]
"""Return value of `quote_oft`."""


@dataclass(frozen=True)
class Origin:
    """Origin of a packet."""

    nonce: Uint64
    sender: Bytes32
    src_eid: Uint32


# The endpoint


@dataclass(frozen=True)
class EndpointConfig:
    """Verifier of packets, receiver of their fees, and our endpoint id."""

    eid: Uint32
    native_token: Address
    remote_eid: Uint32
    verifier: Address
    worker: Address


def _path(name: str, local: str, eid: int, remote: bytes) -> xdr.SCVal:
    parts = (scval.to_address(local), scval.to_uint32(eid), scval.to_bytes(remote))
    return key(name, *parts)


def _payload_key(receiver: str, origin: Origin) -> xdr.SCVal:
    return key("Payload", scval.to_address(receiver), struct(Origin).encode(origin))


class Endpoint(Contract):
    """Numbers outgoing packets, and keeps verified ones until they are delivered."""

    CODE = "endpoint"

    @exported(CONSTRUCTOR)
    def construct(
        self,
        eid: Uint32,
        remote_eid: Uint32,
        native_token: Address,
        verifier: Address,
        worker: Address,
    ) -> None:
        """Start with one verifier, whose word stands for a message library's."""
        config = EndpointConfig(eid, native_token, remote_eid, verifier, worker)
        self.env.store(_CONFIG, struct(EndpointConfig), config)

    @exported("quote")
    def quote(self, dst_eid: Uint32) -> Int128:
        """Stroops of XLM for one message."""
        if dst_eid != self._config().remote_eid:
            raise self.env.fail(UNSUPPORTED_EID, f"endpoint id {dst_eid}")
        return NATIVE_FEE

    @exported("send")
    def send(
        self,
        sender: Address,
        dst_eid: Uint32,
        receiver: Bytes32,
        message: Bytes,
        options: Bytes,
        native_fee: Int128,
        refund_address: Address,
    ) -> MessagingReceipt:
        """Number a packet and emit it; `native_fee` was paid to this contract before."""
        self.env.require_auth(sender)
        price = self.quote(dst_eid)
        if native_fee < price:
            raise self.env.fail(INSUFFICIENT_FEE, f"{native_fee} of {price} stroops")
        config = self._config()
        packet = self._number(config, sender, dst_eid, receiver, message)
        self._pay(config.worker, price)
        if native_fee > price:
            self._pay(refund_address, native_fee - price)
        data = {
            "encoded_packet": scval.to_bytes(packet.encode()),
            "options": scval.to_bytes(options),
            "send_library": scval.to_address(self.env.contract),
        }
        self.env.emit([scval.to_symbol("packet_sent")], scval.to_struct(data))
        return MessagingReceipt(MessagingFee(price, 0), packet.guid, packet.nonce)

    @exported("verify")
    def verify(self, verifier: Address, packet: Bytes) -> None:
        """Take a packet of the other side as true (the verifier alone may say so)."""
        self.env.require_auth(verifier)
        if verifier != self._config().verifier:
            raise self.env.fail(UNAUTHORIZED, "not the verifier")
        try:
            known = Packet.decode(packet)
        except ValueError as error:
            raise self.env.fail(BAD_PACKET, str(error)) from error
        if known.dst_eid != self._config().eid:
            raise self.env.fail(UNSUPPORTED_EID, f"a packet for endpoint id {known.dst_eid}")
        receiver = StrKey.encode_contract(known.receiver)
        origin = Origin(known.nonce, known.sender, known.src_eid)
        self._check_verifiable(receiver, origin)
        self.env.store(_payload_key(receiver, origin), BYTES32, known.payload_hash)
        self._advance(receiver, origin)
        topics = [
            scval.to_symbol("packet_verified"),
            struct(Origin).encode(origin),
            scval.to_address(receiver),
        ]
        data = scval.to_struct({"payload_hash": scval.to_bytes(known.payload_hash)})
        self.env.emit(topics, data)

    @exported("clear")
    def clear(self, receiver: Address, origin: Origin, guid: Bytes32, message: Bytes) -> None:
        """Give a verified packet to its receiver, once (the receiver calls)."""
        self.env.require_auth(receiver)
        if origin.nonce > self.inbound_nonce(receiver, origin.src_eid, origin.sender):
            raise self.env.fail(INVALID_NONCE, "an earlier packet is not verified")
        place = _payload_key(receiver, origin)
        if self.env.load(place, BYTES32) != keccak(guid + message):
            raise self.env.fail(PAYLOAD_NOT_FOUND, "not verified, or delivered already")
        self.env.remove(place)
        topics = [
            scval.to_symbol("packet_delivered"),
            struct(Origin).encode(origin),
            scval.to_address(receiver),
        ]
        self.env.emit(topics, scval.to_struct({}))

    @exported("eid")
    def eid(self) -> Uint32:
        """Stellar's endpoint id."""
        return self._config().eid

    @exported("inbound_nonce")
    def inbound_nonce(self, receiver: Address, src_eid: Uint32, sender: Bytes32) -> Uint64:
        """Up to where the path's packets are verified without a gap."""
        return self.env.load(_path("Inbound", receiver, src_eid, sender), U64) or 0

    @exported("outbound_nonce")
    def outbound_nonce(self, sender: Address, dst_eid: Uint32, receiver: Bytes32) -> Uint64:
        """The number of the path's last packet."""
        return self.env.load(_path("Outbound", sender, dst_eid, receiver), U64) or 0

    @exported("inbound_payload_hash")
    def inbound_payload_hash(
        self, receiver: Address, src_eid: Uint32, sender: Bytes32, nonce: Uint64
    ) -> MaybeBytes32:
        """The hash of a packet that is verified and not delivered."""
        place = _payload_key(receiver, Origin(nonce, sender, src_eid))
        found: bytes | None = self.env.load(place, BYTES32)
        return found

    def _config(self) -> EndpointConfig:
        config: EndpointConfig = self.env.load(_CONFIG, struct(EndpointConfig))
        return config

    def _number(
        self, config: EndpointConfig, sender: str, dst_eid: int, receiver: bytes, message: bytes
    ) -> Packet:
        place = _path("Outbound", sender, dst_eid, receiver)
        nonce = self.outbound_nonce(sender, dst_eid, receiver) + 1
        self.env.store(place, U64, nonce)
        return Packet(nonce, config.eid, raw_key(sender), dst_eid, receiver, message)

    def _pay(self, receiver: str, amount: int) -> None:
        own, to = scval.to_address(self.env.contract), scval.to_address(receiver)
        token = self._config().native_token
        self.env.call(token, "transfer", own, to, scval.to_int128(amount))

    def _check_verifiable(self, receiver: str, origin: Origin) -> None:
        """A packet can be verified again only while it waits; none far ahead of the others."""
        inbound = self.inbound_nonce(receiver, origin.src_eid, origin.sender)
        waiting = self.env.load(_payload_key(receiver, origin), BYTES32) is not None
        if origin.nonce <= inbound and not waiting:
            raise self.env.fail(PATH_NOT_VERIFIABLE, "the packet was delivered")
        if origin.nonce > inbound + INBOUND_WINDOW:
            raise self.env.fail(PATH_NOT_VERIFIABLE, "too far ahead of the verified packets")

    def _advance(self, receiver: str, origin: Origin) -> None:
        nonce = self.inbound_nonce(receiver, origin.src_eid, origin.sender)
        while self.env.load(
            _payload_key(receiver, Origin(nonce + 1, origin.sender, origin.src_eid)), BYTES32
        ):
            nonce += 1
        place = _path("Inbound", receiver, origin.src_eid, origin.sender)
        self.env.store(place, U64, nonce)


# The OFT


@dataclass(frozen=True)
class OftConfig:
    """The token, the endpoint, XLM, and the one peer of the devnet."""

    endpoint: Address
    native_token: Address
    peer: Bytes32
    peer_eid: Uint32
    token: Address


class Oft(Contract):
    """Burns USDT0 into packets, and mints USDT0 from them."""

    CODE = "oft"

    @exported(CONSTRUCTOR)
    def construct(
        self,
        token: Address,
        endpoint: Address,
        native_token: Address,
        peer_eid: Uint32,
        peer: Bytes32,
    ) -> None:
        """Start with one peer."""
        config = OftConfig(endpoint, native_token, peer, peer_eid, token)
        self.env.store(_CONFIG, struct(OftConfig), config)

    @exported("quote_send")
    def quote_send(self, sender: Address, send_param: SendParam, pay_in_zro: Bool) -> MessagingFee:
        """Fee of `send` in XLM."""
        self._peer(send_param.dst_eid)
        answer = self.env.call(
            self._config().endpoint, "quote", scval.to_uint32(send_param.dst_eid)
        )
        return MessagingFee(I128.decode(answer), 0)

    @exported("quote_oft")
    def quote_oft(self, sender: Address, send_param: SendParam) -> Quoted:
        """Amounts that `send` would take and deliver: no limits and no fees on the devnet."""
        self._peer(send_param.dst_eid)
        amount = self._sendable(send_param)
        return OftLimit(MOST_AT_ONCE, 0), [], OftReceipt(amount, amount)

    @exported("send")
    def send(
        self,
        sender: Address,
        send_param: SendParam,
        fee: MessagingFee,
        refund_address: Address,
    ) -> Sent:
        """Burn and send the packet; the seventh decimal stays with the sender."""
        self.env.require_auth(sender)
        peer = self._peer(send_param.dst_eid)
        amount = self._sendable(send_param)
        config = self._config()
        who = scval.to_address(sender)
        self.env.call(config.token, "burn", who, scval.to_int128(amount))
        self.env.call(
            config.native_token,
            "transfer",
            who,
            scval.to_address(config.endpoint),
            scval.to_int128(fee.native_fee),
        )
        answer = self.env.call(
            config.endpoint,
            "send",
            scval.to_address(self.env.contract),
            scval.to_uint32(send_param.dst_eid),
            scval.to_bytes(peer),
            scval.to_bytes(oft_message(send_param.to, amount // DUST)),
            scval.to_bytes(send_param.extra_options or ENFORCED_OPTIONS),
            scval.to_int128(fee.native_fee),
            scval.to_address(refund_address),
        )
        receipt: MessagingReceipt = struct(MessagingReceipt).decode(answer)
        topics = [
            scval.to_symbol("oft_sent"),
            scval.to_bytes(receipt.guid),
            scval.to_uint32(send_param.dst_eid),
            who,
        ]
        sent = OftReceipt(amount, amount)
        self.env.emit(topics, struct(OftReceipt).encode(sent))
        return receipt, sent

    @exported("lz_receive")
    def lz_receive(
        self,
        executor: Address,
        origin: Origin,
        guid: Bytes32,
        message: Bytes,
        extra_data: Bytes,
        value: Int128,
    ) -> None:
        """Mint for a verified packet; anyone may, again and again until it succeeds."""
        self.env.require_auth(executor)
        if origin.sender != self._peer(origin.src_eid):
            raise self.env.fail(ONLY_PEER, "not from the peer")
        config = self._config()
        self.env.call(
            config.endpoint,
            "clear",
            scval.to_address(self.env.contract),
            struct(Origin).encode(origin),
            scval.to_bytes(guid),
            scval.to_bytes(message),
        )
        if len(message) != PLAIN_MESSAGE:
            raise self.env.fail(INVALID_OPTIONS, "composed messages are not supported")
        to = self._recipient(message[:32])
        amount = int.from_bytes(message[32:], "big") * DUST
        self.env.call(config.token, "mint", scval.to_address(to), scval.to_int128(amount))
        topics = [
            scval.to_symbol("oft_received"),
            scval.to_bytes(guid),
            scval.to_uint32(origin.src_eid),
            scval.to_address(to),
        ]
        self.env.emit(topics, scval.to_struct({"amount_received_ld": scval.to_int128(amount)}))

    @exported("token")
    def token(self) -> Address:
        """The token that is burned and minted."""
        return self._config().token

    @exported("shared_decimals")
    def shared_decimals(self) -> Uint32:
        """Decimals of amounts in messages."""
        return 6

    @exported("decimal_conversion_rate")
    def decimal_conversion_rate(self) -> Int128:
        """Stroops in one unit of the shared decimals."""
        return DUST

    @exported("is_paused")
    def is_paused(self) -> Bool:
        """Never: the devnet's OFT has no switch."""
        return False

    @exported("peer")
    def peer(self, eid: Uint32) -> MaybeBytes32:
        """The contract that is trusted on an endpoint id, if any."""
        config = self._config()
        return config.peer if eid == config.peer_eid else None

    @exported("next_nonce")
    def next_nonce(self, src_eid: Uint32, sender: Bytes32) -> Uint64:
        """0: packets may be delivered in any order."""
        return 0

    def _config(self) -> OftConfig:
        config: OftConfig = self.env.load(_CONFIG, struct(OftConfig))
        return config

    def _peer(self, eid: int) -> bytes:
        peer = self.peer(eid)
        if peer is None:
            raise self.env.fail(NO_PEER, f"no peer on endpoint id {eid}")
        return peer

    def _sendable(self, wanted: SendParam) -> int:
        if wanted.compose_msg or wanted.oft_cmd:
            raise self.env.fail(INVALID_OPTIONS, "composed messages are not supported")
        amount = wanted.amount_ld // DUST * DUST
        if amount < wanted.min_amount_ld:
            raise self.env.fail(SLIPPAGE, f"{amount} is below {wanted.min_amount_ld}")
        if amount <= 0:
            raise self.env.fail(INVALID_AMOUNT, f"{wanted.amount_ld} stroops")
        return amount

    def _recipient(self, raw: bytes) -> str:
        """A contract if there is one with this id now, else an account."""
        contract = StrKey.encode_contract(raw)
        if self.env.exists(contract):
            return contract
        return StrKey.encode_ed25519_public_key(raw)
