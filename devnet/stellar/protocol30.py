"""XDR of Protocol 30 that the installed SDK lacks: close times in milliseconds, muxed contracts.

The definitions are those of stellar-xdr v30.0 (CAP-84, CAP-88; strkey `W…` of SEP-23). Values are
written by subclasses of the SDK's types and read by `read`. The SDK's own `from_xdr` stays as it
is, so a reader under test gets no help from the stand-in.
"""

from base64 import b32decode, b32encode
from binascii import crc_hqx
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar, cast

from stellar_sdk import StrKey, xdr
from xdrlib3 import Packer, Unpacker

SIGNED_MS = 3
"""STELLAR_VALUE_SIGNED_MS: STELLAR_VALUE_SIGNED with `closeTimeMs` before it."""
EMPTY_TX_SET_MS = 4
"""STELLAR_VALUE_EMPTY_TX_SET_MS: STELLAR_VALUE_EMPTY_TX_SET with `closeTimeMs` before it."""
MUXED_CONTRACT = 5
"""SC_ADDRESS_TYPE_MUXED_CONTRACT."""
MUXED_CONTRACT_PROTOCOL = 30
"""First protocol in which a muxed contract can be written (CAP-84)."""
_W = 22 << 3
"""Version byte of a `W…` strkey."""


class MillisecondValue(xdr.StellarValueExt):
    """Arm 3 or 4 of `StellarValue.ext`: eight bytes of `closeTimeMs`, then what arm 1 or 2 has."""

    def __init__(self, close_time_ms: int, value: xdr.StellarValueExt) -> None:
        super().__init__(value.v, value.lc_value_signature, value.proposed_value)
        self.close_time_ms = close_time_ms

    def pack(self, packer: Packer) -> None:
        """Write the discriminant of Protocol 30 and the arm."""
        if self.proposed_value is not None:
            packer.pack_int(EMPTY_TX_SET_MS)
            packer.pack_uhyper(self.close_time_ms)
            self.proposed_value.pack(packer)
            return
        assert self.lc_value_signature is not None
        packer.pack_int(SIGNED_MS)
        packer.pack_uhyper(self.close_time_ms)
        self.lc_value_signature.pack(packer)


class MuxedContract(xdr.SCAddress):
    """`SCAddress` arm 5: a contract and the id of one of its customers."""

    def __init__(self, contract: bytes, muxed_id: int) -> None:
        super().__init__(cast(xdr.SCAddressType, MUXED_CONTRACT))
        self.contract = contract
        self.muxed_id = muxed_id

    @classmethod
    def from_strkey(cls, text: str) -> Self:
        """The address of a `W…` strkey; raise ValueError for any other text."""
        # 43 bytes are 69 characters; base32 wants them filled up to 72.
        raw = b32decode(text + "===") if len(text) == 69 else b""
        address = cls(raw[1:33], int.from_bytes(raw[33:41], "big"))
        if not raw or address.strkey != text:
            raise ValueError(f"not a muxed contract address: {text!r}")
        return address

    @property
    def strkey(self) -> str:
        """`W…`: unlike in XDR, the contract stands before the id."""
        payload = bytes([_W]) + self.contract + self.muxed_id.to_bytes(8, "big")
        return b32encode(payload + crc_hqx(payload, 0).to_bytes(2, "little")).decode().rstrip("=")

    @property
    def contract_strkey(self) -> str:
        """The contract alone, `C…`."""
        return StrKey.encode_contract(self.contract)

    def pack(self, packer: Packer) -> None:
        """Write the discriminant, the id and the contract."""
        packer.pack_int(MUXED_CONTRACT)
        packer.pack_uhyper(self.muxed_id)
        packer.pack_fopaque(32, self.contract)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MuxedContract) and self.strkey == other.strkey

    def __hash__(self) -> int:
        return hash(self.strkey)


class _Unpacker(Unpacker):
    """Marks a read that knows Protocol 30."""


class _Readable(Protocol):
    @classmethod
    def unpack(cls, unpacker: Unpacker) -> Self: ...


T = TypeVar("T", bound=_Readable)


def read(kind: type[T], raw: bytes) -> T:
    """Read a type of the SDK by the definitions of Protocol 30; raise ValueError or EOFError."""
    unpacker = _Unpacker(raw)
    value = kind.unpack(unpacker)
    if unpacker.get_position() != len(raw):
        raise ValueError(f"{len(raw) - unpacker.get_position()} bytes too many")
    return value


def _signed_ms(unpacker: Unpacker) -> MillisecondValue:
    close_time_ms = unpacker.unpack_uhyper()
    signature = xdr.LedgerCloseValueSignature.unpack(unpacker)
    kind = xdr.StellarValueType.STELLAR_VALUE_SIGNED
    return MillisecondValue(close_time_ms, xdr.StellarValueExt(kind, signature))


def _empty_tx_set_ms(unpacker: Unpacker) -> MillisecondValue:
    close_time_ms = unpacker.unpack_uhyper()
    proposed = xdr.StellarValueProposedValue.unpack(unpacker)
    kind = xdr.StellarValueType.STELLAR_VALUE_EMPTY_TX_SET
    return MillisecondValue(close_time_ms, xdr.StellarValueExt(kind, proposed_value=proposed))


def _muxed_contract(unpacker: Unpacker) -> MuxedContract:
    muxed_id = unpacker.unpack_uhyper()
    return MuxedContract(unpacker.unpack_fopaque(32), muxed_id)


def _add_arms(union: Any, arms: Mapping[int, Callable[[Unpacker], Any]]) -> None:
    """Let `read` find more arms of a union; every other unpacker finds those of the SDK."""
    unpack_known = union.unpack

    def unpack(unpacker: Unpacker, *depth_limit: int) -> Any:
        start = unpacker.get_position()
        arm = arms.get(unpacker.unpack_int()) if isinstance(unpacker, _Unpacker) else None
        if arm is not None:
            return arm(unpacker)
        unpacker.set_position(start)
        return unpack_known(unpacker, *depth_limit)

    union.unpack = staticmethod(unpack)


_add_arms(xdr.StellarValueExt, {SIGNED_MS: _signed_ms, EMPTY_TX_SET_MS: _empty_tx_set_ms})
_add_arms(xdr.SCAddress, {MUXED_CONTRACT: _muxed_contract})
