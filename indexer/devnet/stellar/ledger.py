"""Building a closed ledger: transaction set, header, meta, and the hashes that join them.

Hashes are the network's own rules: a transaction set is hashed over its XDR, the results in apply
order, a header over its XDR, and each header names the hash of the one before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from indexer.devnet.stellar.accounts import NETWORK_ID, VALIDATOR, keypair
from indexer.devnet.stellar.apply import Applied
from indexer.devnet.stellar.entries import BASE_RESERVE
from indexer.devnet.stellar.transactions import BASE_FEE, Transaction

PROTOCOL = 23
TOTAL_COINS = 10**18
"""Stroops in existence: 100,000,000,000 XLM, as on every Stellar network at its start."""
_NO_HASH = bytes(32)


@dataclass(frozen=True)
class Head:
    """What the next ledger needs to know of the last one; `close_time` in seconds."""

    sequence: int
    hash: bytes
    close_time: int
    fee_pool: int


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
        # One cluster: every contract call may depend on the one before.
        cluster = xdr.DependentTxCluster(envelopes)
        stages.append(xdr.ParallelTxExecutionStage([cluster]))
    return xdr.ParallelTxsComponent(xdr.Int64(BASE_FEE), stages)


def _agreed(set_hash: bytes, close_time: int) -> xdr.StellarValue:
    """What consensus agreed to, signed by the devnet's one validator."""
    signer = keypair(VALIDATOR)
    time = xdr.TimePoint(xdr.Uint64(close_time))
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_SCPVALUE.to_bytes(4, "big")
    signed = sha256(NETWORK_ID + kind + set_hash + time.to_xdr_bytes()).digest()
    signature = xdr.LedgerCloseValueSignature(
        xdr.NodeID(signer.xdr_public_key()), xdr.Signature(signer.sign(signed))
    )
    ext = xdr.StellarValueExt(
        xdr.StellarValueType.STELLAR_VALUE_SIGNED, lc_value_signature=signature
    )
    return xdr.StellarValue(xdr.Hash(set_hash), time, [], ext)


def header(
    previous: Head,
    close_time: int,
    set_hash: bytes,
    result_hash: bytes,
    state: bytes,
    fee_pool: int,
) -> xdr.LedgerHeader:
    """The header of the ledger after `previous`."""
    return xdr.LedgerHeader(
        ledger_version=xdr.Uint32(PROTOCOL),
        previous_ledger_hash=xdr.Hash(previous.hash),
        scp_value=_agreed(set_hash, close_time),
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


def first_head(genesis_time: int, entries: Mapping[bytes, bytes]) -> Head:
    """Ledger 1: the accounts of genesis and nothing else. It is not served; ledger 2 is first."""
    nothing = Head(0, _NO_HASH, 0, 0)
    one = header(nothing, genesis_time, _NO_HASH, _NO_HASH, state_hash(entries), 0)
    return Head(1, header_hash(one), genesis_time, 0)


@dataclass(frozen=True)
class Closed:
    """A closed ledger: its meta and the head that the next one builds on."""

    meta: xdr.LedgerCloseMeta
    head: Head


def close(
    previous: Head, close_time: int, applied: Sequence[Applied], entries: Mapping[bytes, bytes]
) -> Closed:
    """Close the ledger after `previous`; `applied` in apply order, `entries` the state after."""
    tx_set = transaction_set(previous.hash, [one.transaction for one in applied])
    processing = [one.to_meta() for one in applied]
    result_set = xdr.TransactionResultSet([item.result for item in processing])
    fee_pool = previous.fee_pool + sum(one.charged for one in applied)
    closed = header(
        previous,
        close_time,
        sha256(tx_set.to_xdr_bytes()).digest(),
        sha256(result_set.to_xdr_bytes()).digest(),
        state_hash(entries),
        fee_pool,
    )
    own_hash = header_hash(closed)
    meta = xdr.LedgerCloseMetaV2(
        ext=xdr.LedgerCloseMetaExt(0),
        ledger_header=xdr.LedgerHeaderHistoryEntry(
            xdr.Hash(own_hash), closed, xdr.LedgerHeaderHistoryEntryExt(0)
        ),
        tx_set=tx_set,
        tx_processing=processing,
        upgrades_processing=[],
        scp_info=[],
        total_byte_size_of_live_soroban_state=xdr.Uint64(0),
        evicted_keys=[],
    )
    head = Head(previous.sequence + 1, own_hash, close_time, fee_pool)
    return Closed(xdr.LedgerCloseMeta(2, v2=meta), head)
