"""Circle's CCTP V2 on Stellar: messenger, transmitter and forwarder.

Functions take USDC with 7 decimals; messages and the messenger's own events carry 6, the
forwarder's event 7. Message bytes are MessageV2 with a BurnMessageV2 body (Circle's
evm-cctp-contracts). Error numbers are those of Circle's stellar-cctp contracts; one number may
come from several contracts, so read it with the contract that raised it.
"""

from dataclasses import dataclass

from eth_hash.auto import keccak
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from stellar_sdk import Address as StellarAddress
from stellar_sdk import StrKey, scval

from indexer.devnet.evm_messages import FINALIZED, BurnMessage
from indexer.devnet.stellar.contracts.token import unmuxed
from indexer.devnet.stellar.host import CONSTRUCTOR, Contract, InvocationFailed, exported
from indexer.devnet.stellar.values import (
    ADDRESS,
    BOOL,
    I128,
    Address,
    Bool,
    Bytes,
    Bytes32,
    Int128,
    ManyBytes20,
    MaybeAddress,
    MaybeBytes32,
    Uint32,
    key,
    optional,
    struct,
)

MESSAGE_VERSION = 1
BODY_VERSION = 1
THRESHOLD = 2
SIGNATURE_BYTES = 65
MIN_FINALITY = 500
DUST = 10
"""Stroops in one unit of the 6 decimals that messages carry."""
ANYONE = bytes(32)
HEADER_BYTES = 148
BODY_BYTES = 228
HOOK_HEADER = 32

ATTESTATION_LENGTH = 6000
ATTESTATION_ORDER = 6001
NOT_AN_ATTESTER = 6002
RECOVERY_FAILED = 6003
RECOVERY_ID = 6013
BURN_TOKEN_UNSUPPORTED = 6303
MESSAGE_FORMAT = 6904
WRONG_DESTINATION = 6905
WRONG_CALLER = 6906
WRONG_VERSION = 6907
NONCE_USED = 6908
HANDLER_REFUSED = 6909
ZERO_AMOUNT = 7102
ZERO_RECIPIENT = 7103
MAX_FEE_TOO_HIGH = 7104
UNKNOWN_DOMAIN = 7106
EMPTY_HOOK = 7107
WRONG_BODY_VERSION = 7109
WRONG_REMOTE = 7110
FEE_TOO_HIGH = 7113
FEE_ABOVE_MAX = 7114
MINT_TOKEN_UNSUPPORTED = 7115
FINALITY_TOO_LOW = 7116
MESSAGE_EXPIRED = 7117
BELOW_ONE_UNIT = 7118
HOOK_TOO_SHORT = 7300
WRONG_MINT_RECIPIENT = 7301
WRONG_RECIPIENT = 7302
FORWARD_MESSAGE_VERSION = 7304
FORWARD_BODY_VERSION = 7306
BAD_FORWARD_RECIPIENT = 7307
TOKEN_UNRESOLVED = 7312
WRONG_HOOK_VERSION = 7313
NOTHING_MINTED = 7314

_CONFIG = key("Config")


@dataclass(frozen=True)
class Body:
    """BurnMessageV2; amounts have 6 decimals."""

    version: int
    burn_token: bytes
    mint_recipient: bytes
    amount: int
    message_sender: bytes
    max_fee: int
    fee_executed: int
    expiration: int
    hook_data: bytes

    @classmethod
    def parse(cls, raw: bytes) -> "Body":
        """Raise ValueError for a body that is too short."""
        if len(raw) < BODY_BYTES:
            raise ValueError(f"a burn has {BODY_BYTES} bytes or more, not {len(raw)}")
        return cls(
            version=_int(raw[0:4]),
            burn_token=raw[4:36],
            mint_recipient=raw[36:68],
            amount=_int(raw[68:100]),
            message_sender=raw[100:132],
            max_fee=_int(raw[132:164]),
            fee_executed=_int(raw[164:196]),
            expiration=_int(raw[196:228]),
            hook_data=raw[228:],
        )


@dataclass(frozen=True)
class Message:
    """MessageV2, as attested."""

    version: int
    source_domain: int
    destination_domain: int
    nonce: bytes
    sender: bytes
    recipient: bytes
    destination_caller: bytes
    finality_executed: int
    body: bytes

    @classmethod
    def parse(cls, raw: bytes) -> "Message":
        """Raise ValueError for a message that is too short."""
        if len(raw) < HEADER_BYTES:
            raise ValueError(f"a message has {HEADER_BYTES} bytes or more, not {len(raw)}")
        return cls(
            version=_int(raw[0:4]),
            source_domain=_int(raw[4:8]),
            destination_domain=_int(raw[8:12]),
            nonce=raw[12:44],
            sender=raw[44:76],
            recipient=raw[76:108],
            destination_caller=raw[108:140],
            finality_executed=_int(raw[144:148]),
            body=raw[148:],
        )


def _int(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def raw_key(strkey: str) -> bytes:
    """The 32 bytes behind a `G…` or `C…` address; messages do not tell which it was."""
    return StellarAddress(strkey).key


# The transmitter


@dataclass(frozen=True)
class TransmitterConfig:
    """The local domain, and whose signatures count (20-byte addresses)."""

    attesters: ManyBytes20
    local_domain: Uint32


class MessageTransmitter(Contract):
    """Sends messages, and receives each attested one once."""

    CODE = "message transmitter"

    @exported(CONSTRUCTOR)
    def construct(self, local_domain: Uint32, attesters: ManyBytes20) -> None:
        """Start with the attesters; all of them must sign."""
        config = TransmitterConfig(attesters, local_domain)
        self.env.store(_CONFIG, struct(TransmitterConfig), config)

    @exported("send_message")
    def send_message(
        self,
        caller: Address,
        destination_domain: Uint32,
        recipient: Bytes32,
        destination_caller: Bytes32,
        min_finality_threshold: Uint32,
        message_body: Bytes,
    ) -> None:
        """Emit a message; the ranges that attesters fill in are zero."""
        self.env.require_auth(caller)
        header = (
            _word(MESSAGE_VERSION, 4)
            + _word(self._config().local_domain, 4)
            + _word(destination_domain, 4)
            + bytes(32)
            + raw_key(caller)
            + recipient
            + destination_caller
            + _word(min_finality_threshold, 4)
            + bytes(4)
        )
        data = scval.to_struct({"message": scval.to_bytes(header + message_body)})
        self.env.emit([scval.to_symbol("message_sent")], data)

    @exported("receive_message")
    def receive_message(self, caller: Address, message: Bytes, attestation: Bytes) -> Bool:
        """Hand an attested message to its recipient, once."""
        self.env.require_auth(caller)
        self._check_attestation(message, attestation)
        parsed = self._parse(message)
        self._check_header(parsed, caller)
        place = key("Nonce", scval.to_bytes(parsed.nonce))
        if self.env.load(place, BOOL):
            raise self.env.fail(NONCE_USED, "nonce already used")
        self.env.store(place, BOOL, True)
        if not self._handle(parsed):
            raise self.env.fail(HANDLER_REFUSED, "the recipient refused the message")
        self._emit_received(caller, parsed)
        return True

    @exported("is_nonce_used")
    def is_nonce_used(self, nonce: Bytes32) -> Bool:
        """Has a message with this nonce been received?"""
        return self.env.load(key("Nonce", scval.to_bytes(nonce)), BOOL) or False

    @exported("get_local_domain")
    def get_local_domain(self) -> Uint32:
        """Stellar's domain."""
        return self._config().local_domain

    def _config(self) -> TransmitterConfig:
        config: TransmitterConfig = self.env.load(_CONFIG, struct(TransmitterConfig))
        return config

    def _parse(self, raw: bytes) -> Message:
        try:
            return Message.parse(raw)
        except ValueError as error:
            raise self.env.fail(MESSAGE_FORMAT, str(error)) from error

    def _check_header(self, message: Message, caller: str) -> None:
        if message.destination_domain != self._config().local_domain:
            raise self.env.fail(WRONG_DESTINATION, "the message is for another domain")
        if message.destination_caller not in (ANYONE, raw_key(caller)):
            raise self.env.fail(WRONG_CALLER, "the message names another caller")
        if message.version != MESSAGE_VERSION:
            raise self.env.fail(WRONG_VERSION, f"message version {message.version}")

    def _check_attestation(self, message: bytes, attestation: bytes) -> None:
        """Exactly two signatures over keccak(message), signers strictly ascending."""
        if len(attestation) != THRESHOLD * SIGNATURE_BYTES:
            raise self.env.fail(ATTESTATION_LENGTH, f"{len(attestation)} bytes of attestation")
        attesters, last = self._config().attesters, bytes(20)
        for start in range(0, len(attestation), SIGNATURE_BYTES):
            signer = self._signer(message, attestation[start : start + SIGNATURE_BYTES])
            if signer <= last:
                raise self.env.fail(ATTESTATION_ORDER, "signers do not ascend")
            if signer not in attesters:
                raise self.env.fail(NOT_AN_ATTESTER, f"0x{signer.hex()} is no attester")
            last = signer

    def _signer(self, message: bytes, signature: bytes) -> bytes:
        if signature[64] not in (27, 28):
            raise self.env.fail(RECOVERY_ID, f"recovery id {signature[64]}")
        try:
            rs = Signature(signature[:64] + bytes([signature[64] - 27]))
            key_of_signer = rs.recover_public_key_from_msg_hash(keccak(message))
        except (BadSignature, ValidationError) as error:
            raise self.env.fail(RECOVERY_FAILED, str(error)) from error
        return key_of_signer.to_canonical_address()

    def _handle(self, message: Message) -> bool:
        finalized = message.finality_executed >= FINALIZED
        kind = "finalized" if finalized else "unfinalized"
        answer = self.env.call(
            StrKey.encode_contract(message.recipient),
            f"handle_recv_{kind}_message",
            scval.to_uint32(message.source_domain),
            scval.to_bytes(message.sender),
            scval.to_uint32(message.finality_executed),
            scval.to_bytes(message.body),
        )
        return BOOL.decode(answer)

    def _emit_received(self, caller: str, message: Message) -> None:
        topics = [
            scval.to_symbol("message_received"),
            scval.to_address(caller),
            scval.to_bytes(message.nonce),
            scval.to_uint32(message.finality_executed),
        ]
        data = {
            "message_body": scval.to_bytes(message.body),
            "sender": scval.to_bytes(message.sender),
            "source_domain": scval.to_uint32(message.source_domain),
        }
        self.env.emit(topics, scval.to_struct(data))


# The messenger


@dataclass(frozen=True)
class MessengerConfig:
    """The one remote domain of the devnet, and the token on both sides."""

    fee_recipient: Address
    remote_domain: Uint32
    remote_messenger: Bytes32
    remote_token: Bytes32
    token: Address
    transmitter: Address


@dataclass(frozen=True)
class _Burn:
    """The arguments of a burn, already in the messages' 6 decimals."""

    caller: str
    amount: int
    destination_domain: int
    mint_recipient: bytes
    destination_caller: bytes
    max_fee: int
    min_finality: int
    hook_data: bytes


class TokenMessengerMinter(Contract):
    """Burns USDC into messages, and mints USDC from them."""

    CODE = "token messenger minter"

    @exported(CONSTRUCTOR)
    def construct(
        self,
        transmitter: Address,
        token: Address,
        fee_recipient: Address,
        remote_domain: Uint32,
        remote_messenger: Bytes32,
        remote_token: Bytes32,
    ) -> None:
        """Start linked to one remote domain."""
        config = MessengerConfig(
            fee_recipient, remote_domain, remote_messenger, remote_token, token, transmitter
        )
        self.env.store(_CONFIG, struct(MessengerConfig), config)

    @exported("deposit_for_burn")
    def deposit_for_burn(
        self,
        caller: Address,
        amount: Int128,
        destination_domain: Uint32,
        mint_recipient: Bytes32,
        burn_token: Address,
        destination_caller: Bytes32,
        max_fee: Int128,
        min_finality_threshold: Uint32,
    ) -> None:
        """Burn within an allowance; the seventh decimal stays with the caller."""
        burn = _Burn(
            caller,
            amount,
            destination_domain,
            mint_recipient,
            destination_caller,
            max_fee,
            min_finality_threshold,
            b"",
        )
        self._burn(burn, burn_token)

    @exported("deposit_for_burn_with_hook")
    def deposit_for_burn_with_hook(
        self,
        caller: Address,
        amount: Int128,
        destination_domain: Uint32,
        mint_recipient: Bytes32,
        burn_token: Address,
        destination_caller: Bytes32,
        max_fee: Int128,
        min_finality_threshold: Uint32,
        hook_data: Bytes,
    ) -> None:
        """The same, with bytes for the destination to act on or to ignore."""
        if not hook_data:
            raise self.env.fail(EMPTY_HOOK, "empty hook data")
        burn = _Burn(
            caller,
            amount,
            destination_domain,
            mint_recipient,
            destination_caller,
            max_fee,
            min_finality_threshold,
            hook_data,
        )
        self._burn(burn, burn_token)

    @exported("handle_recv_finalized_message")
    def handle_recv_finalized_message(
        self,
        source_domain: Uint32,
        sender: Bytes32,
        finality_threshold_executed: Uint32,
        message_body: Bytes,
    ) -> Bool:
        """Mint for a burn that is final on its chain (transmitter only)."""
        return self._mint(source_domain, sender, message_body)

    @exported("handle_recv_unfinalized_message")
    def handle_recv_unfinalized_message(
        self,
        source_domain: Uint32,
        sender: Bytes32,
        finality_threshold_executed: Uint32,
        message_body: Bytes,
    ) -> Bool:
        """Mint for a burn that may still be reorganised away (transmitter only)."""
        if finality_threshold_executed < MIN_FINALITY:
            raise self.env.fail(FINALITY_TOO_LOW, f"finality {finality_threshold_executed}")
        return self._mint(source_domain, sender, message_body)

    @exported("get_local_token")
    def get_local_token(self, remote_domain: Uint32, remote_token: Bytes32) -> MaybeAddress:
        """The token that is minted for a remote token, if any."""
        config = self._config()
        linked = (config.remote_domain, config.remote_token) == (remote_domain, remote_token)
        return config.token if linked else None

    @exported("get_remote_token_messenger")
    def get_remote_token_messenger(self, domain: Uint32) -> MaybeBytes32:
        """The messenger that is trusted on a domain, if any."""
        config = self._config()
        return config.remote_messenger if domain == config.remote_domain else None

    @exported("is_denylisted")
    def is_denylisted(self, account: Address) -> Bool:
        """Is the account refused?"""
        return False

    def _config(self) -> MessengerConfig:
        config: MessengerConfig = self.env.load(_CONFIG, struct(MessengerConfig))
        return config

    def _burn(self, burn: _Burn, token: str) -> None:
        self.env.require_auth(burn.caller)
        config = self._config()
        self._check_burn(burn, token, config)
        amount, max_fee = burn.amount // DUST, burn.max_fee // DUST
        self._take(config.token, burn.caller, amount * DUST)
        message = BurnMessage(
            source_domain=0,
            destination_domain=burn.destination_domain,
            sender=raw_key(self.env.contract),
            recipient=config.remote_messenger,
            burn_token=raw_key(token),
            mint_recipient=burn.mint_recipient,
            amount=amount,
            message_sender=raw_key(burn.caller),
            destination_caller=burn.destination_caller,
            max_fee=max_fee,
            min_finality=burn.min_finality,
            hook_data=burn.hook_data,
        )
        self.env.call(
            config.transmitter,
            "send_message",
            scval.to_address(self.env.contract),
            scval.to_uint32(burn.destination_domain),
            scval.to_bytes(config.remote_messenger),
            scval.to_bytes(burn.destination_caller),
            scval.to_uint32(burn.min_finality),
            scval.to_bytes(message.encode()[HEADER_BYTES:]),
        )
        self._emit_burn(burn, token, amount, max_fee, config)

    def _check_burn(self, burn: _Burn, token: str, config: MessengerConfig) -> None:
        if burn.amount <= 0:
            raise self.env.fail(ZERO_AMOUNT, "amount must be positive")
        if burn.mint_recipient == bytes(32):
            raise self.env.fail(ZERO_RECIPIENT, "zero recipient")
        if burn.amount < DUST:
            raise self.env.fail(BELOW_ONE_UNIT, "less than one unit of 6 decimals")
        if not 0 <= burn.max_fee // DUST < burn.amount // DUST:
            raise self.env.fail(MAX_FEE_TOO_HIGH, "max fee must be below the amount")
        if burn.destination_domain != config.remote_domain:
            raise self.env.fail(UNKNOWN_DOMAIN, f"domain {burn.destination_domain}")
        if token != config.token:
            raise self.env.fail(BURN_TOKEN_UNSUPPORTED, f"{token} cannot be burned")

    def _take(self, token: str, caller: str, amount: int) -> None:
        own = scval.to_address(self.env.contract)
        self.env.call(
            token, "transfer_from", own, scval.to_address(caller), own, scval.to_int128(amount)
        )
        self.env.call(token, "burn", own, scval.to_int128(amount))

    def _emit_burn(
        self, burn: _Burn, token: str, amount: int, max_fee: int, config: MessengerConfig
    ) -> None:
        topics = [
            scval.to_symbol("deposit_for_burn"),
            scval.to_address(token),
            scval.to_address(burn.caller),
            scval.to_uint32(burn.min_finality),
        ]
        data = {
            "amount": scval.to_int128(amount),
            "destination_caller": scval.to_bytes(burn.destination_caller),
            "destination_domain": scval.to_uint32(burn.destination_domain),
            "destination_token_messenger": scval.to_bytes(config.remote_messenger),
            "hook_data": scval.to_bytes(burn.hook_data),
            "max_fee": scval.to_int128(max_fee),
            "mint_recipient": scval.to_bytes(burn.mint_recipient),
        }
        self.env.emit(topics, scval.to_struct(data))

    def _mint(self, source_domain: int, sender: bytes, raw: bytes) -> bool:
        config = self._config()
        self.env.require_auth(config.transmitter)
        if (source_domain, sender) != (config.remote_domain, config.remote_messenger):
            raise self.env.fail(WRONG_REMOTE, "not a messenger that is trusted")
        body = Body.parse(raw)
        self._check_mint(source_domain, body, config)
        recipient = StrKey.encode_contract(body.mint_recipient)
        net = body.amount - body.fee_executed
        self._mint_to(config.token, recipient, net * DUST)
        if body.fee_executed:
            self._mint_to(config.token, config.fee_recipient, body.fee_executed * DUST)
        topics = [
            scval.to_symbol("mint_and_withdraw"),
            scval.to_address(recipient),
            scval.to_address(config.token),
        ]
        data = {
            "amount": scval.to_int128(net),
            "fee_collected": scval.to_int128(body.fee_executed),
        }
        self.env.emit(topics, scval.to_struct(data))
        return True

    def _check_mint(self, source_domain: int, body: Body, config: MessengerConfig) -> None:
        if body.version != BODY_VERSION:
            raise self.env.fail(WRONG_BODY_VERSION, f"body version {body.version}")
        if body.expiration and body.expiration <= self.env.ledger.sequence:
            raise self.env.fail(MESSAGE_EXPIRED, "the message has expired")
        if body.fee_executed and body.fee_executed >= body.amount:
            raise self.env.fail(FEE_TOO_HIGH, "the fee takes the whole amount")
        if body.fee_executed > body.max_fee:
            raise self.env.fail(FEE_ABOVE_MAX, "the fee is above what was allowed")
        if (source_domain, body.burn_token) != (config.remote_domain, config.remote_token):
            raise self.env.fail(MINT_TOKEN_UNSUPPORTED, "not the token that is linked")

    def _mint_to(self, token: str, receiver: str, amount: int) -> None:
        self.env.call(token, "mint", scval.to_address(receiver), scval.to_int128(amount))


# The forwarder


@dataclass(frozen=True)
class ForwarderConfig:
    """The two contracts that the forwarder works with."""

    messenger: Address
    transmitter: Address


class CctpForwarder(Contract):
    """Receives a mint for itself and passes it to the strkey in the hook data."""

    CODE = "cctp forwarder"

    @exported(CONSTRUCTOR)
    def construct(self, messenger: Address, transmitter: Address) -> None:
        """Start beside a messenger and its transmitter."""
        config = ForwarderConfig(messenger, transmitter)
        self.env.store(_CONFIG, struct(ForwarderConfig), config)

    @exported("mint_and_forward")
    def mint_and_forward(self, message: Bytes, attestation: Bytes) -> None:
        """Anyone may; a recipient that cannot take the token leaves the message unused."""
        config: ForwarderConfig = self.env.load(_CONFIG, struct(ForwarderConfig))
        try:
            parsed = Message.parse(message)
            body = Body.parse(parsed.body)
        except ValueError as error:
            raise self.env.fail(MESSAGE_FORMAT, str(error)) from error
        self._check(parsed, body, config)
        token = self._local_token(parsed, body, config)
        recipient = self._recipient(body.hook_data, token)
        amount = self._receive(config, token, message, attestation)
        own = scval.to_address(self.env.contract)
        self.env.call(token, "transfer", own, scval.to_address(recipient), scval.to_int128(amount))
        data = {
            "amount": scval.to_int128(amount),
            "forward_recipient": scval.to_address(recipient),
            "token": scval.to_address(token),
        }
        self.env.emit([scval.to_symbol("mint_and_forward")], scval.to_struct(data))

    def _check(self, message: Message, body: Body, config: ForwarderConfig) -> None:
        if message.version != MESSAGE_VERSION:
            raise self.env.fail(FORWARD_MESSAGE_VERSION, f"message version {message.version}")
        if body.version != BODY_VERSION:
            raise self.env.fail(FORWARD_BODY_VERSION, f"body version {body.version}")
        if message.recipient != raw_key(config.messenger):
            raise self.env.fail(WRONG_RECIPIENT, "the message is not for the messenger")
        if body.mint_recipient != raw_key(self.env.contract):
            raise self.env.fail(WRONG_MINT_RECIPIENT, "the mint is not for the forwarder")

    def _local_token(self, message: Message, body: Body, config: ForwarderConfig) -> str:
        answer = self.env.call(
            config.messenger,
            "get_local_token",
            scval.to_uint32(message.source_domain),
            scval.to_bytes(body.burn_token),
        )
        token = optional(ADDRESS).decode(answer)
        if token is None:
            raise self.env.fail(TOKEN_UNRESOLVED, "no local token for the burned one")
        return token

    def _recipient(self, hook: bytes, token: str) -> str:
        """Bytes 24 to 28 a version, 28 to 32 a length, then the strkey; the rest is free."""
        if len(hook) < HOOK_HEADER:
            raise self.env.fail(HOOK_TOO_SHORT, "the hook has no header")
        version, length = _int(hook[24:28]), _int(hook[28:32])
        if version:
            raise self.env.fail(WRONG_HOOK_VERSION, f"hook version {version}")
        if len(hook) < HOOK_HEADER + length:
            raise self.env.fail(HOOK_TOO_SHORT, "the hook ends before its strkey does")
        try:
            recipient = hook[HOOK_HEADER : HOOK_HEADER + length].decode("ascii")
            StellarAddress(recipient).to_xdr_sc_address()
        except ValueError as error:
            raise InvocationFailed(f"not a strkey: {error}", self.env.contract) from error
        if unmuxed(recipient)[0] in (token, self.env.contract):
            raise self.env.fail(BAD_FORWARD_RECIPIENT, f"{recipient} cannot be paid")
        return recipient

    def _receive(
        self, config: ForwarderConfig, token: str, message: bytes, attestation: bytes
    ) -> int:
        """Receive the message, and say how much of the token it brought."""
        own = scval.to_address(self.env.contract)
        before = I128.decode(self.env.call(token, "balance", own))
        self.env.call(
            config.transmitter,
            "receive_message",
            own,
            scval.to_bytes(message),
            scval.to_bytes(attestation),
        )
        minted = I128.decode(self.env.call(token, "balance", own)) - before
        if minted <= 0:
            raise self.env.fail(NOTHING_MINTED, "nothing was minted")
        return minted


def _word(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def forwarding_hook(recipient: str, label: bytes = b"") -> bytes:
    """Hook data that forwards to a strkey; `label` follows it, ignored by the contract."""
    strkey = recipient.encode("ascii")
    return bytes(24) + _word(0, 4) + _word(len(strkey), 4) + strkey + label
