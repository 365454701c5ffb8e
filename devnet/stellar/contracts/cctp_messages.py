"""Messages of Circle's CCTP V2 on Stellar: MessageV2 with a BurnMessageV2 body.

Amounts in messages have 6 decimals. The bytes are those of Circle's evm-cctp-contracts; error
numbers in the contracts beside this are those of Circle's stellar-cctp. One number may come from
several contracts, so read it with the contract that raised it.
"""

from dataclasses import dataclass

from stellar_sdk import Address as StellarAddress

MESSAGE_VERSION = 1
BODY_VERSION = 1
HEADER_BYTES = 148
BODY_BYTES = 228
MESSAGE_FORMAT = 6904


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
    """The 32 bytes behind a `G…` or `C…` address; messages do not contain which kind it was."""
    return StellarAddress(strkey).key


def _word(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def forwarding_hook(recipient: str, label: bytes = b"") -> bytes:
    """Hook data that forwards to a strkey; `label` follows it, ignored by the contract."""
    strkey = recipient.encode("ascii")
    return bytes(24) + _word(0, 4) + _word(len(strkey), 4) + strkey + label
