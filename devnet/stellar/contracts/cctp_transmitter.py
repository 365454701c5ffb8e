"""CCTP's transmitter on Stellar: sends messages, and receives each attested one once."""

from dataclasses import dataclass

from eth_hash.auto import keccak
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from stellar_sdk import StrKey, scval

from devnet.evm_messages import FINALIZED
from devnet.stellar.contracts.cctp_messages import (
    MESSAGE_FORMAT,
    MESSAGE_VERSION,
    Message,
    _word,
    raw_key,
)
from devnet.stellar.contracts.cctp_pause import Pausable
from devnet.stellar.host import CONSTRUCTOR, exported
from devnet.stellar.values import (
    BOOL,
    Address,
    Bool,
    Bytes,
    Bytes20,
    Bytes32,
    ManyBytes20,
    MaybeUint32,
    Uint32,
    key,
    struct,
)

THRESHOLD = 2
SIGNATURE_BYTES = 65
ANYONE = bytes(32)
ATTESTATION_LENGTH = 6000
ATTESTATION_ORDER = 6001
NOT_AN_ATTESTER = 6002
RECOVERY_FAILED = 6003
NO_SUCH_ATTESTER = 6007
RECOVERY_ID = 6013
WRONG_DESTINATION = 6905
WRONG_CALLER = 6906
WRONG_VERSION = 6907
NONCE_USED = 6908
HANDLER_REFUSED = 6909
_CONFIG = key("Config")


@dataclass(frozen=True)
class TransmitterConfig:
    """The local domain, and whose signatures count (20-byte addresses)."""

    attesters: ManyBytes20
    local_domain: Uint32


class MessageTransmitter(Pausable):
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
        self.refuse_if_paused()
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
        self.refuse_if_paused()
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

    @exported("get_num_enabled_attesters")
    def get_num_enabled_attesters(self) -> Uint32:
        """Number of attesters."""
        return len(self._config().attesters)

    @exported("get_enabled_attester")
    def get_enabled_attester(self, index: Uint32) -> Bytes20:
        """An attester by its place."""
        attesters = self._config().attesters
        if index >= len(attesters):
            raise self.env.fail(NO_SUCH_ATTESTER, f"no attester {index}")
        return attesters[index]

    @exported("get_signature_threshold")
    def get_signature_threshold(self) -> MaybeUint32:
        """Signatures that a message needs."""
        return THRESHOLD

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
