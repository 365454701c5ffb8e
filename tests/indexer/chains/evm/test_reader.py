"""Blocks and logs that the reader finds at a real node."""

from dataclasses import replace

import pytest

from indexer.chains.evm.abi import TRANSFER_TOPIC, topic_of
from indexer.chains.evm.jsonrpc import MAX_BATCH
from indexer.chains.evm.log_filters import MAX_RECIPIENTS, RECIPIENTS_PER_QUERY, transfer_filters
from indexer.errors import NodeBehind, WrongChain
from tests.indexer.chains.evm.anvil import transfer
from tests.indexer.chains.evm.chain import (
    BYSTANDER,
    CHAIN,
    MESSAGE_SENT,
    PAYER,
    TRANSMITTER,
    UNWATCHED,
    USDC,
    WATCHED,
    address,
    reading,
    word,
)
from warehouse_schema.identifiers import ChainId, Height, TxHash


def test_blocks_of_a_range_are_linked(anvil, reader):
    reader.check_identity()
    first = reader.head().height
    for _ in range(3):
        anvil.mine()
    found = reader.read(first, first + 3, [])
    assert [block.height for block in found.blocks] == [first + i for i in range(4)]
    assert found.blocks[-1] == reader.head() == reader.block(Height(first + 3))
    for before, after in zip(found.blocks, found.blocks[1:], strict=False):
        assert after.parent_hash == before.hash
        assert after.time >= before.time


def test_range_over_one_batch_of_calls_is_read(anvil, reader):
    first = reader.head().height
    anvil.rpc.call("anvil_mine", [hex(MAX_BATCH + 20)])
    found = reader.read(first, first + MAX_BATCH + 20, [WATCHED])
    assert len(found.blocks) == MAX_BATCH + 21


def test_only_own_logs_are_returned_in_order(anvil, reader):
    hashes = anvil.emit(
        transfer(USDC, WATCHED, 5),
        transfer(USDC, UNWATCHED, 6),
        transfer(BYSTANDER, WATCHED, 7),
        (TRANSMITTER, MESSAGE_SENT, word(1), word(2), 8),
        (TRANSMITTER, topic_of("Nonsense()"), word(1), word(2), 9),
        transfer(USDC, WATCHED, 10),
    )
    head = reader.head()
    found = reader.read(head.height, head.height, [WATCHED.upper().replace("0X", "0x")])
    assert [(log.address, int.from_bytes(log.data, "big")) for log in found.events] == [
        (USDC, 5),
        (TRANSMITTER, 8),
        (USDC, 10),
    ]
    first, message, _ = found.events
    assert first.topics == (TRANSFER_TOPIC, word(PAYER), word(WATCHED))
    assert (first.seen.position, message.seen.position) == (0, 3)
    assert first.seen.tx_hash == hashes[0]
    assert (first.seen.chain, first.seen.height) == (CHAIN.id, head.height)
    assert (first.seen.block_hash, first.seen.block_time) == (head.hash, head.time)


def test_no_watched_address_gives_no_transfer(anvil, reader):
    anvil.emit(transfer(USDC, WATCHED, 5))
    head = reader.head().height
    assert reader.read(head, head, []).events == ()


def test_addresses_over_one_query_are_all_queried(anvil, reader):
    many = [address(number) for number in range(0x5000, 0x5000 + 1_200)]
    anvil.emit(*(transfer(USDC, each, 1) for each in (many[0], many[600], many[-1])))
    head = reader.head().height
    found = reader.read(head, head, many)
    assert [log.topics[2] for log in found.events] == [word(many[i]) for i in (0, 600, 1_199)]


def test_recipients_over_the_limit_are_filtered_locally(anvil, reader):
    many = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS + 1)]
    anvil.emit(*(transfer(USDC, each, 1) for each in (many[0], UNWATCHED, many[-1])))
    head = reader.head().height
    found = reader.read(head, head, many)
    assert [log.topics[2] for log in found.events] == [word(many[0]), word(many[-1])]


def test_queries_stop_growing_with_recipients():
    listed = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS)]
    assert len(transfer_filters(CHAIN, [])) == 0
    assert len(transfer_filters(CHAIN, listed)) == MAX_RECIPIENTS / RECIPIENTS_PER_QUERY
    assert len(transfer_filters(CHAIN, None)) == 1


def test_chain_without_contracts_requests_no_logs(anvil):
    empty = replace(
        CHAIN,
        usdc=None,
        cctp_token_messenger=None,
        cctp_message_transmitter=None,
        usdt0=None,
        oft=None,
        lz_endpoint=None,
    )
    anvil.emit(transfer(USDC, WATCHED, 5))
    with reading(empty, anvil.http) as reader:
        head = reader.head().height
        assert reader.read(head, head, [WATCHED]).events == ()


def test_false_positive_bloom_is_settled_by_receipts(anvil, reader):
    # The token and the watched recipient are in the block, not in one log.
    anvil.emit(
        (USDC, topic_of("Approval(address,address,uint256)"), PAYER, UNWATCHED, 1),
        transfer(BYSTANDER, WATCHED, 7),
    )
    head = reader.head().height
    assert reader.read(head, head, [WATCHED]).events == ()


def test_missing_block_is_behind(reader):
    head = reader.head().height
    beyond = Height(head + 1)
    with pytest.raises(NodeBehind):
        reader.block(beyond)
    with pytest.raises(NodeBehind):
        reader.read(beyond, beyond, [WATCHED])
    with pytest.raises(NodeBehind):
        reader.read(head, beyond, [])


def test_node_of_another_chain_is_refused_before_reading(anvil):
    with reading(replace(CHAIN, id=ChainId("eip155:1")), anvil.http) as reader:
        with pytest.raises(WrongChain, match="serves eip155:31337, not eip155:1"):
            reader.check_identity()
        with pytest.raises(WrongChain):
            reader.head()


def test_receipt_has_the_result_of_a_transaction(anvil, reader):
    (sent,) = anvil.emit(transfer(USDC, WATCHED, 5))
    receipt = reader.proven_receipt_from(reader.nodes.current, sent)
    head = reader.head()
    assert receipt is not None
    assert (receipt.tx_hash, receipt.height, receipt.block_hash, receipt.succeeded) == (
        sent,
        head.height,
        head.hash,
        True,
    )
    assert reader.proven_receipt_from(reader.nodes.current, TxHash("0x" + "12" * 32)) is None
