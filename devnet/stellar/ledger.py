"""Building a closed ledger: transaction set, header, meta, and the hashes that join them.

Hashes are the network's own rules: a transaction set is hashed over its XDR, the results in apply
order, a header over its XDR, and each header names the hash of the one before.

A ledger is closed in the format of the protocol of the ledger before it (CAP-88): the one that
applies an upgrade names the new version and has the old format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from devnet.stellar.accounts import NETWORK_ID, VALIDATOR, keypair
from devnet.stellar.apply import Applied
from devnet.stellar.entries import BASE_RESERVE
from devnet.stellar.protocol30 import MillisecondValue
from devnet.stellar.transactions import BASE_FEE, Transaction

PROTOCOLS = (28, 29, 30)
"""Protocols that a chain may begin with; 29 has the format of 28."""
PROTOCOL = 30
"""Protocol of a chain whose genesis names no other."""
MILLISECOND_PROTOCOL = 30
"""First protocol whose close times are milliseconds (CAP-88)."""
TOTAL_COINS = 10**18
"""Stroops in existence: 100,000,000,000 XLM, as on every Stellar network at its start."""
_NO_HASH = bytes(32)


@dataclass(frozen=True)
class Head:
    """State of the last ledger that the next one needs."""

    sequence: int
    hash: bytes
    close_time_ms: int
    fee_pool: int
    protocol: int

    @property
    def has_milliseconds(self) -> bool:
        """Does the next ledger tell its close time in milliseconds?"""
        return self.protocol >= MILLISECOND_PROTOCOL


def state_hash(entries: Mapping[bytes, bytes]) -> bytes:
    """Stands for the bucket list hash: sha256 over all entries in the order of their keys."""
    digest = sha256()
    for key in sorted(entries):
        digest.update(key)
        digest.update(entries[key])
    return digest.digest()


def transaction_set(
    previous: bytes, transactions: Sequence[Transaction]
) -> xdr.GeneralizedTransactionSet:
    """The set as consensus names it: two phases, each sorted by transaction hash."""
    ordered = sorted(transactions, key=lambda tx: tx.hash)
    classic = [tx.envelope for tx in ordered if not tx.is_soroban]
    soroban = [tx.envelope for tx in ordered if tx.is_soroban]
    phases = [
        xdr.TransactionPhase(0, v0_components=_components(classic)),
        xdr.TransactionPhase(1, parallel_txs_component=_parallel(soroban)),
    ]
    return xdr.GeneralizedTransactionSet(1, xdr.TransactionSetV1(xdr.Hash(previous), phases))


def _components(envelopes: list[xdr.TransactionEnvelope]) -> list[xdr.TxSetComponent]:
    if not envelopes:
        return []
    group = xdr.TxSetComponentTxsMaybeDiscountedFee(xdr.Int64(BASE_FEE), envelopes)
    kind = xdr.TxSetComponentType.TXSET_COMP_TXS_MAYBE_DISCOUNTED_FEE
    return [xdr.TxSetComponent(kind, group)]


def _parallel(envelopes: list[xdr.TransactionEnvelope]) -> xdr.ParallelTxsComponent:
    stages = []
    if envelopes:
        # A single cluster: every contract call may depend on the one before.
        cluster = xdr.DependentTxCluster(envelopes)
        stages.append(xdr.ParallelTxExecutionStage([cluster]))
    return xdr.ParallelTxsComponent(xdr.Int64(BASE_FEE), stages)


@dataclass(frozen=True)
class Agreed:
    """The values of a ledger that consensus agrees on.

    With `proposed`, the hash of a transaction set, that set could not be had and the ledger takes
    the empty one (CAP-83). `protocol` is the version that the ledger upgrades to, None for none.
    """

    close_time_ms: int
    proposed: bytes | None = None
    protocol: int | None = None


def _value(previous: Head, set_hash: bytes, agreed: Agreed) -> xdr.StellarValue:
    """The agreed value, signed by the devnet's one validator."""
    signer = keypair(VALIDATOR)
    time = xdr.TimePoint(xdr.Uint64(agreed.close_time_ms // 1000))
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_SCPVALUE.to_bytes(4, "big")
    signed = NETWORK_ID + kind + (agreed.proposed or set_hash) + time.to_xdr_bytes()
    if previous.has_milliseconds:
        signed += agreed.close_time_ms.to_bytes(8, "big")
    signature = xdr.LedgerCloseValueSignature(
        xdr.NodeID(signer.xdr_public_key()), xdr.Signature(signer.sign(sha256(signed).digest()))
    )
    ext = _extension(previous, agreed.proposed, signature)
    if previous.has_milliseconds:
        ext = MillisecondValue(agreed.close_time_ms, ext)
    upgrades = [] if agreed.protocol is None else [_upgrade(agreed.protocol).to_xdr_bytes()]
    return xdr.StellarValue(xdr.Hash(set_hash), time, [xdr.UpgradeType(u) for u in upgrades], ext)


def _extension(
    previous: Head, proposed: bytes | None, signature: xdr.LedgerCloseValueSignature
) -> xdr.StellarValueExt:
    kind = xdr.StellarValueType
    if proposed is None:
        return xdr.StellarValueExt(kind.STELLAR_VALUE_SIGNED, lc_value_signature=signature)
    value = xdr.StellarValueProposedValue(
        tx_set_hash=xdr.Hash(proposed),
        previous_ledger_hash=xdr.Hash(previous.hash),
        previous_ledger_version=xdr.Uint32(previous.protocol),
        lc_value_signature=signature,
    )
    return xdr.StellarValueExt(kind.STELLAR_VALUE_EMPTY_TX_SET, proposed_value=value)


def _upgrade(protocol: int) -> xdr.LedgerUpgrade:
    kind = xdr.LedgerUpgradeType.LEDGER_UPGRADE_VERSION
    return xdr.LedgerUpgrade(kind, new_ledger_version=xdr.Uint32(protocol))


def header(
    previous: Head,
    agreed: Agreed,
    set_hash: bytes,
    result_hash: bytes,
    state: bytes,
    fee_pool: int,
) -> xdr.LedgerHeader:
    """The header of the ledger after `previous`."""
    return xdr.LedgerHeader(
        ledger_version=xdr.Uint32(agreed.protocol or previous.protocol),
        previous_ledger_hash=xdr.Hash(previous.hash),
        scp_value=_value(previous, set_hash, agreed),
        tx_set_result_hash=xdr.Hash(result_hash),
        bucket_list_hash=xdr.Hash(state),
        ledger_seq=xdr.Uint32(previous.sequence + 1),
        total_coins=xdr.Int64(TOTAL_COINS),
        fee_pool=xdr.Int64(fee_pool),
        inflation_seq=xdr.Uint32(0),
        id_pool=xdr.Uint64(0),
        base_fee=xdr.Uint32(BASE_FEE),
        base_reserve=xdr.Uint32(BASE_RESERVE),
        max_tx_set_size=xdr.Uint32(1000),
        skip_list=[xdr.Hash(_NO_HASH)] * 4,
        ext=xdr.LedgerHeaderExt(0),
    )


def header_hash(closed: xdr.LedgerHeader) -> bytes:
    """The hash of a ledger: sha256 over its header's XDR."""
    return sha256(closed.to_xdr_bytes()).digest()


def first_head(
    genesis_time: int, protocol: int, entries: Mapping[bytes, bytes], sequence: int = 1
) -> Head:
    """The ledger of genesis: its accounts and nothing else; `genesis_time` in seconds.

    It is not served; the next one is the first that is.
    """
    nothing = Head(sequence - 1, _NO_HASH, 0, 0, protocol)
    agreed = Agreed(genesis_time * 1000)
    one = header(nothing, agreed, _NO_HASH, _NO_HASH, state_hash(entries), 0)
    return Head(sequence, header_hash(one), agreed.close_time_ms, 0, protocol)


@dataclass(frozen=True)
class Closed:
    """A closed ledger: its meta and the head that the next one builds on."""

    meta: xdr.LedgerCloseMeta
    head: Head


def close(
    previous: Head, agreed: Agreed, applied: Sequence[Applied], entries: Mapping[bytes, bytes]
) -> Closed:
    """Close the ledger after `previous`; `applied` in apply order, `entries` the state after."""
    tx_set = transaction_set(previous.hash, [one.transaction for one in applied])
    processing = [one.to_meta() for one in applied]
    result_set = xdr.TransactionResultSet([item.result for item in processing])
    fee_pool = previous.fee_pool + sum(one.charged for one in applied)
    closed = header(
        previous,
        agreed,
        sha256(tx_set.to_xdr_bytes()).digest(),
        sha256(result_set.to_xdr_bytes()).digest(),
        state_hash(entries),
        fee_pool,
    )
    own_hash = header_hash(closed)
    upgrades = []
    if agreed.protocol is not None:
        changes = xdr.LedgerEntryChanges([])
        upgrades = [xdr.UpgradeEntryMeta(_upgrade(agreed.protocol), changes)]
    meta = xdr.LedgerCloseMetaV2(
        ext=xdr.LedgerCloseMetaExt(0),
        ledger_header=xdr.LedgerHeaderHistoryEntry(
            xdr.Hash(own_hash), closed, xdr.LedgerHeaderHistoryEntryExt(0)
        ),
        tx_set=tx_set,
        tx_processing=processing,
        upgrades_processing=upgrades,
        scp_info=[],
        total_byte_size_of_live_soroban_state=xdr.Uint64(0),
        evicted_keys=[],
    )
    head = Head(
        previous.sequence + 1,
        own_hash,
        agreed.close_time_ms,
        fee_pool,
        closed.ledger_version.uint32,
    )
    return Closed(xdr.LedgerCloseMeta(2, v2=meta), head)
