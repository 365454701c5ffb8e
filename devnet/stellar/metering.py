"""Resources of a contract call, their fee, and a check that it stays within its footprint.

The devnet runs no Wasm, so instructions are counted a call and an entry, flat. Bytes and entries
are real. The rates are constants of the order of the public network's (which votes on its own and
lets rent follow the size of its state): enough for a fee that is too low to be refused here for the
reason for which it would be there. Amounts are stroops.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from stellar_sdk import xdr

from devnet.stellar.entries import Layer

INSTRUCTIONS_A_CALL = 1_000_000
INSTRUCTIONS_AN_ENTRY = 50_000
MOST_INSTRUCTIONS = 400_000_000
MOST_READ_BYTES = 200_000
MOST_WRITE_BYTES = 132_096
MOST_ENTRIES = 100
_INSTRUCTIONS = (25, 10_000)
_KIB = 1024
_READ_ENTRY, _READ_KIB = 6_250, 1_786
_WRITE_ENTRY, _WRITE_KIB = 10_000, 3_500
_TRANSACTION_KIB = 1_624 + 16_235
"""To carry a transaction, and to keep it."""
_EVENTS_KIB = 10_000
_RENT_ENTRY = 20_000
"""For a contract's entry that comes into being."""
_CLASSIC = (xdr.LedgerEntryType.ACCOUNT, xdr.LedgerEntryType.TRUSTLINE)


class OutsideFootprint(Exception):
    """An entry was touched that the transaction did not name, or written though only to be read."""


@dataclass(frozen=True)
class Footprint:
    """LedgerKey XDR of what a transaction may read, and of what it may write as well."""

    read_only: frozenset[bytes]
    read_write: frozenset[bytes]

    @classmethod
    def of(cls, footprint: xdr.LedgerFootprint) -> "Footprint":
        """From its XDR form."""
        return cls(
            frozenset(key.to_xdr_bytes() for key in footprint.read_only),
            frozenset(key.to_xdr_bytes() for key in footprint.read_write),
        )


@dataclass
class Storage(Layer):
    """The layer of a contract call: notes what is touched, and refuses what is not named.

    Without a footprint everything is allowed; what was touched is the footprint it would need.
    """

    footprint: Footprint | None = None
    touched: dict[bytes, None] = field(default_factory=dict)

    def get(self, key: bytes) -> bytes | None:
        """The entry under a key; raise `OutsideFootprint` for one that is not named."""
        self.touched[key] = None
        allowed = self.footprint
        if allowed is not None and key not in allowed.read_only | allowed.read_write:
            raise OutsideFootprint(f"a key is read outside of the footprint: {_named(key)}")
        return super().get(key)

    def put(self, key: bytes, data: xdr.LedgerEntryData, sponsor: str | None = None) -> None:
        """Write an entry; raise `OutsideFootprint` for one that is not to be written."""
        self._check_write(key)
        super().put(key, data, sponsor)

    def remove(self, key: bytes) -> None:
        """Delete an entry; raise `OutsideFootprint` for one that is not to be written."""
        self._check_write(key)
        super().remove(key)

    def _check_write(self, key: bytes) -> None:
        self.touched[key] = None
        if self.footprint is not None and key not in self.footprint.read_write:
            raise OutsideFootprint(f"a key is written outside of the footprint: {_named(key)}")

    def needed(self) -> xdr.LedgerFootprint:
        """The footprint of what was touched, in the order of the keys."""
        parsed = {key: xdr.LedgerKey.from_xdr_bytes(key) for key in sorted(self.touched)}
        return xdr.LedgerFootprint(
            [known for key, known in parsed.items() if key not in self.writes],
            [known for key, known in parsed.items() if key in self.writes],
        )


def _named(key: bytes) -> str:
    return xdr.LedgerKey.from_xdr_bytes(key).to_xdr()


@dataclass(frozen=True)
class Used:
    """Resources used by a call."""

    instructions: int
    read_bytes: int
    write_bytes: int
    refundable: int

    @classmethod
    def of(cls, storage: Storage, calls: int, event_bytes: int) -> "Used":
        """`calls` are contract calls; `event_bytes` events and return value together."""
        created = [
            key
            for key, entry in storage.writes.items()
            if entry is not None and storage.below.get(key) is None and not _is_classic(key)
        ]
        return cls(
            instructions=INSTRUCTIONS_A_CALL * calls + INSTRUCTIONS_AN_ENTRY * len(storage.touched),
            read_bytes=sum(
                len(storage.below.get(key) or b"") for key in storage.touched if _is_classic(key)
            ),
            write_bytes=sum(len(entry) for entry in storage.writes.values() if entry is not None),
            refundable=_share(event_bytes, _EVENTS_KIB, _KIB) + _RENT_ENTRY * len(created),
        )

    def within(self, declared: xdr.SorobanResources) -> bool:
        """Whether it is within the transaction's declared resources."""
        return (
            self.instructions <= declared.instructions.uint32
            and self.read_bytes <= declared.disk_read_bytes.uint32
            and self.write_bytes <= declared.write_bytes.uint32
        )

    def declared(self, footprint: xdr.LedgerFootprint) -> xdr.SorobanResources:
        """Declared resources for a transaction that uses these, with a margin."""
        return xdr.SorobanResources(
            footprint,
            xdr.Uint32(self.instructions * 11 // 10 + 50_000),
            xdr.Uint32(self.read_bytes + _margin(self.read_bytes)),
            xdr.Uint32(self.write_bytes + _margin(self.write_bytes)),
        )


def _margin(size: int) -> int:
    return size // 10 + 100 if size else 0


def _is_classic(key: bytes) -> bool:
    return int.from_bytes(key[:4], "big") in _CLASSIC


def _share(amount: int, rate: int, unit: int) -> int:
    return -(-amount * rate // unit)


def declared_fee(resources: xdr.SorobanResources, size: int) -> int:
    """Fee of the declared resources, used or not; `size` is the envelope's bytes."""
    footprint = resources.footprint
    written = len(footprint.read_write)
    read = sum(key.type in _CLASSIC for key in (*footprint.read_only, *footprint.read_write))
    return (
        _share(resources.instructions.uint32, *_INSTRUCTIONS)
        + _READ_ENTRY * read
        + _share(resources.disk_read_bytes.uint32, _READ_KIB, _KIB)
        + _WRITE_ENTRY * written
        + _share(resources.write_bytes.uint32, _WRITE_KIB, _KIB)
        + _share(size, _TRANSACTION_KIB, _KIB)
    )


def is_allowed(resources: xdr.SorobanResources) -> bool:
    """Within what one transaction may ever use, and no key named twice or of a wrong kind?"""
    footprint = resources.footprint
    keys = [key.to_xdr_bytes() for key in (*footprint.read_only, *footprint.read_write)]
    return (
        resources.instructions.uint32 <= MOST_INSTRUCTIONS
        and resources.disk_read_bytes.uint32 <= MOST_READ_BYTES
        and resources.write_bytes.uint32 <= MOST_WRITE_BYTES
        and len(keys) <= MOST_ENTRIES
        and len(set(keys)) == len(keys)
        and _only(keys, (*_CLASSIC, *_CONTRACT))
    )


_CONTRACT = (xdr.LedgerEntryType.CONTRACT_DATA, xdr.LedgerEntryType.CONTRACT_CODE)


def _only(keys: Collection[bytes], kinds: Collection[int]) -> bool:
    return all(int.from_bytes(key[:4], "big") in kinds for key in keys)
