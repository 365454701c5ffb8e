"""Cross-chain messages as bytes: CCTP V2 burns with their attesters, LayerZero V2 packets.

Pure, and the same for both sides of the development network. The attesters' keys are SHA-256 of a
public phrase: they may never guard money.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_typing import Hash32
from eth_utils.crypto import keccak

ZERO_WORD = bytes(32)
FINALIZED = 2000
CONFIRMED = 1000
"""CCTP finality thresholds: Standard and Fast."""


def address_word(address: str) -> bytes:
    """An EVM address as the 32 bytes of a message field."""
    return bytes.fromhex(address.removeprefix("0x")).rjust(32, b"\0")


def _word(value: int, size: int = 32) -> bytes:
    return value.to_bytes(size, "big")


# CCTP messages


SOURCE_BLANKS = (slice(12, 44), slice(144, 148), slice(312, 344), slice(344, 376))
"""Set by attesters: nonce, executed threshold, executed fee, expiration (MessageV2 and
BurnMessageV2 offsets)."""
BURN_MESSAGE_SIZE = 376


@dataclass(frozen=True)
class BurnMessage:
    """A source message of a burn: a CCTP V2 header with a BurnMessageV2 body.

    `amount` and `max_fee` are 6-decimal base units; the 32-byte fields are raw.
    """

    source_domain: int
    destination_domain: int
    sender: bytes
    recipient: bytes
    burn_token: bytes
    mint_recipient: bytes
    amount: int
    message_sender: bytes
    destination_caller: bytes = ZERO_WORD
    max_fee: int = 0
    min_finality: int = FINALIZED
    hook_data: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the source event, the attesters' four ranges zero."""
        return b"".join((self._header(), self._body(), self.hook_data))

    def _header(self) -> bytes:
        domains = _word(1, 4) + _word(self.source_domain, 4) + _word(self.destination_domain, 4)
        parties = self.sender + self.recipient + self.destination_caller
        return domains + ZERO_WORD + parties + _word(self.min_finality, 4) + _word(0, 4)

    def _body(self) -> bytes:
        amounts = _word(self.amount) + self.message_sender + _word(self.max_fee)
        return _word(1, 4) + self.burn_token + self.mint_recipient + amounts + bytes(64)


def message_nonce(source_message: bytes, counter: int) -> bytes:
    """A 32-byte CCTP nonce; `counter` tells byte-identical burns apart."""
    return keccak(source_message + _word(counter))


def _attester_accounts() -> tuple[LocalAccount, ...]:
    keys = (hashlib.sha256(f"isthmus attester {i}".encode()).digest() for i in (1, 2))
    accounts: list[LocalAccount] = [Account.from_key(key) for key in keys]
    return tuple(sorted(accounts, key=lambda account: int(account.address, 16)))


@dataclass(frozen=True)
class Attesters:
    """Two attesters of the stand-in for Circle's attestation service, ascending by address.

    Both sides of the development network trust the same two. Their keys are SHA-256 of a public
    phrase.
    """

    accounts: tuple[LocalAccount, ...] = field(default_factory=_attester_accounts)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Lower-case, ascending."""
        return tuple(account.address.lower() for account in self.accounts)

    def attest(
        self,
        source_message: bytes,
        *,
        nonce: bytes,
        finality_executed: int,
        fee_executed: int = 0,
        expiration: int = 0,
    ) -> tuple[bytes, bytes]:
        """The final message of a burn and its attestation.

        `fee_executed` is in 6-decimal base units; `expiration` is a block or ledger number of the
        destination, 0 for never. Raises ValueError unless `source_message` is a burn whose four
        blank ranges are zero and `nonce` has 32 bytes.
        """
        _require_source_message(source_message)
        if len(nonce) != len(ZERO_WORD):
            raise ValueError(f"a nonce has 32 bytes, not {len(nonce)}")
        values = (nonce, _word(finality_executed, 4), _word(fee_executed), _word(expiration))
        message = bytearray(source_message)
        for blank, value in zip(SOURCE_BLANKS, values, strict=True):
            message[blank] = value
        return bytes(message), self.sign(bytes(message))

    def sign(self, message: bytes) -> bytes:
        """65 bytes (r, s, v) an attester over keccak(message), signers ascending."""
        digest = Hash32(keccak(message))
        return b"".join(bytes(each.unsafe_sign_hash(digest).signature) for each in self.accounts)


def _require_source_message(message: bytes) -> None:
    if len(message) < BURN_MESSAGE_SIZE:
        raise ValueError(
            f"a burn message has {BURN_MESSAGE_SIZE} bytes or more, not {len(message)}"
        )
    if any(any(message[blank]) for blank in SOURCE_BLANKS):
        raise ValueError("this message is attested already: its blank ranges are not zero")


# LayerZero packets


@dataclass(frozen=True)
class Packet:
    """A LayerZero V2 packet (PacketV1Codec): 113 bytes of header and guid, then the message."""

    nonce: int
    src_eid: int
    sender: bytes
    dst_eid: int
    receiver: bytes
    message: bytes

    @classmethod
    def decode(cls, encoded: bytes) -> Packet:
        """Raises ValueError when the version or the guid is wrong."""
        packet = cls(
            nonce=int.from_bytes(encoded[1:9], "big"),
            src_eid=int.from_bytes(encoded[9:13], "big"),
            sender=encoded[13:45],
            dst_eid=int.from_bytes(encoded[45:49], "big"),
            receiver=encoded[49:81],
            message=encoded[113:],
        )
        if packet.encode() != encoded:
            raise ValueError("not a packet of version 1, or its guid is wrong")
        return packet

    @property
    def guid(self) -> bytes:
        """Keccak of nonce, source and destination; the same on both chains."""
        return keccak(self._path())

    @property
    def payload_hash(self) -> bytes:
        """Hash that the destination's endpoint stores for a verified packet."""
        return keccak(self.guid + self.message)

    @property
    def origin(self) -> tuple[int, bytes, int]:
        """The ABI's Origin: source endpoint, sender, nonce."""
        return (self.src_eid, self.sender, self.nonce)

    def encode(self) -> bytes:
        """The bytes of the PacketSent event."""
        return b"\x01" + self._path() + self.guid + self.message

    def _path(self) -> bytes:
        source = _word(self.nonce, 8) + _word(self.src_eid, 4) + self.sender
        return source + _word(self.dst_eid, 4) + self.receiver


def oft_message(send_to: bytes, amount_sd: int) -> bytes:
    """A plain OFT transfer: recipient (32 bytes) and amount in shared decimals (6)."""
    return send_to + _word(amount_sd, 8)
