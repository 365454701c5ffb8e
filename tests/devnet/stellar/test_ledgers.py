"""Ledger hashes recomputed from XDR, and the changes in the ledger meta."""

import itertools
from hashlib import sha256

import pytest
from stellar_sdk import Asset, scval, xdr
from stellar_sdk.operation import ChangeTrust, Payment

from devnet.stellar import building
from devnet.stellar.accounts import NETWORK_ID, USDC, address
from devnet.stellar.asset_events import token_contract
from devnet.stellar.genesis import first_entries
from devnet.stellar.protocol30 import read
from tests.devnet.stellar.chain import UNIT, Chain


@pytest.fixture(scope="module")
def chain():
    """A chain with classic payments, failures, contract calls and empty ledgers."""
    chain = Chain()
    alice, bob = chain.open("alice", usdc=10 * UNIT), chain.open("bob", usdc=0)
    chain.pay(alice, bob.public_key, UNIT)
    chain.pay(alice, bob.public_key, 100 * UNIT)
    chain.node.close_ledger()
    move = building.call(
        token_contract(USDC),
        "transfer",
        scval.to_address(alice.public_key),
        scval.to_address(bob.public_key),
        scval.to_int128(UNIT),
    )
    too_much = building.call(
        token_contract(USDC),
        "transfer",
        scval.to_address(bob.public_key),
        scval.to_address(alice.public_key),
        scval.to_int128(100 * UNIT),
    )
    # One ledger with all kinds of transactions at once.
    carol = chain.open("carol")
    assert chain.submit(alice, [move]).status == "PENDING"
    assert chain.submit(bob, [too_much]).status == "PENDING"
    assert chain.submit(carol, [ChangeTrust(USDC)]).status == "PENDING"
    chain.node.close_ledger()
    return chain


def metas(chain):
    return [
        read(xdr.LedgerCloseMeta, chain.node.ledger(sequence).meta).v2
        for sequence in range(2, chain.node.latest.sequence + 1)
    ]


def envelopes(meta):
    classic, soroban = meta.tx_set.v1_tx_set.phases
    for component in classic.v0_components:
        yield from component.txs_maybe_discounted_fee.txs
    for stage in soroban.parallel_txs_component.execution_stages:
        for cluster in stage.parallel_tx_execution_stage:
            yield from cluster.dependent_tx_cluster


def transaction_hash(envelope):
    return sha256(NETWORK_ID + b"\0\0\0\2" + envelope.v1.tx.to_xdr_bytes()).digest()


def test_header_hash_equals_previous_hash_of_the_next(chain):
    previous = None
    for number, meta in enumerate(metas(chain), start=2):
        entry = meta.ledger_header
        assert entry.hash.hash == sha256(entry.header.to_xdr_bytes()).digest()
        assert entry.header.ledger_seq.uint32 == number
        if previous is not None:
            assert entry.header.previous_ledger_hash.hash == previous
            assert meta.tx_set.v1_tx_set.previous_ledger_hash.hash == previous
        previous = entry.hash.hash


def test_header_commits_to_transaction_set_and_results(chain):
    for meta in metas(chain):
        header = meta.ledger_header.header
        tx_set = sha256(meta.tx_set.to_xdr_bytes()).digest()
        results = xdr.TransactionResultSet([item.result for item in meta.tx_processing])
        assert header.scp_value.tx_set_hash.hash == tx_set
        assert header.tx_set_result_hash.hash == sha256(results.to_xdr_bytes()).digest()


def test_envelopes_and_results_join_by_transaction_hash(chain):
    for meta in metas(chain):
        named = {transaction_hash(envelope) for envelope in envelopes(meta)}
        assert named == {item.result.transaction_hash.hash for item in meta.tx_processing}


def test_contract_call_commits_to_its_value_and_events(chain):
    checked = 0
    for meta in metas(chain):
        for item in meta.tx_processing:
            v4 = item.tx_apply_processing.v4
            if v4.soroban_meta is None or not v4.operations:
                continue
            value = v4.soroban_meta.return_value
            image = xdr.InvokeHostFunctionSuccessPreImage(value, v4.operations[0].events)
            result = item.result.result.result.results[0].tr.invoke_host_function_result
            assert result.success.hash == sha256(image.to_xdr_bytes()).digest()
            checked += 1
    assert checked > 3


def test_close_times_increase_strictly(chain):
    times = [
        meta.ledger_header.header.scp_value.close_time.time_point.uint64 for meta in metas(chain)
    ]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_meta_changes_lead_from_one_state_to_the_next(chain):
    """A reader that starts from the state of ledger 1 and applies every change has the state."""
    entries = first_entries()
    for meta in metas(chain):
        for changes in in_order(meta):
            for change in changes.ledger_entry_changes:
                follow(entries, change)
    assert entries == chain.node._state.entries


def in_order(meta):
    yield from (item.fee_processing for item in meta.tx_processing)
    for item in meta.tx_processing:
        v4 = item.tx_apply_processing.v4
        yield v4.tx_changes_before
        yield from (operation.changes for operation in v4.operations)
        yield v4.tx_changes_after
    yield from (item.post_tx_apply_fee_processing for item in meta.tx_processing)


def follow(entries, change):
    kind = xdr.LedgerEntryChangeType
    if change.type == kind.LEDGER_ENTRY_REMOVED:
        del entries[change.removed.to_xdr_bytes()]
        return
    entry = change.created or change.updated or change.state
    key = key_of(entry.data)
    if change.type == kind.LEDGER_ENTRY_STATE:
        assert entries[key] == entry.to_xdr_bytes()
    else:
        assert (key in entries) == (change.type == kind.LEDGER_ENTRY_UPDATED)
        entries[key] = entry.to_xdr_bytes()


def key_of(data):
    kind = xdr.LedgerEntryType
    if data.type == kind.ACCOUNT:
        key = xdr.LedgerKey(kind.ACCOUNT, account=xdr.LedgerKeyAccount(data.account.account_id))
    elif data.type == kind.TRUSTLINE:
        line = data.trust_line
        key = xdr.LedgerKey(
            kind.TRUSTLINE, trust_line=xdr.LedgerKeyTrustLine(line.account_id, line.asset)
        )
    else:
        entry = data.contract_data
        key = xdr.LedgerKey(
            kind.CONTRACT_DATA,
            contract_data=xdr.LedgerKeyContractData(entry.contract, entry.key, entry.durability),
        )
    return key.to_xdr_bytes()


def test_sum_of_stroops_is_constant(chain):
    held = 0
    for raw in chain.node._state.entries.values():
        data = xdr.LedgerEntry.from_xdr_bytes(raw).data
        held += data.account.balance.int64 if data.account else 0
    header = metas(chain)[-1].ledger_header.header
    assert held + header.fee_pool.int64 == header.total_coins.int64 == 10**18


def test_apply_order_differs_from_set_order(chain):
    busiest = max(metas(chain), key=lambda meta: len(meta.tx_processing))
    applied = [item.result.transaction_hash.hash for item in busiest.tx_processing]
    assert applied != sorted(applied)
    for component in busiest.tx_set.v1_tx_set.phases[0].v0_components:
        hashes = [transaction_hash(each) for each in component.txs_maybe_discounted_fee.txs]
        assert hashes == sorted(hashes)


def test_same_transactions_give_the_same_ledger_hashes():
    def run():
        chain = Chain()
        alice = chain.open("alice", usdc=3 * UNIT)
        chain.pay(alice, address("admin"), UNIT, Asset.native())
        chain.pay(alice, address("admin"), UNIT)
        last = chain.node.latest.sequence
        return [chain.node.ledger(sequence).hash for sequence in range(2, last + 1)]

    first = run()
    assert first == run()
    assert len(set(first)) == len(first)


def test_failed_operation_has_no_changes_in_meta():
    chain = Chain()
    alice = chain.open("alice")
    row = chain.run(alice, Payment(address("admin"), Asset.native(), "100000"))
    v4 = xdr.TransactionMeta.from_xdr_bytes(row.meta).v4
    assert v4.operations == []
    assert [event.stage.name for event in v4.events] == ["TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS"]
