"""The stand-in node of the benchmark `stellar_ledgers`: ledgers as RPC serves them."""

import base64

import pytest

from indexer.chains.stellar.event_pages import EventNode
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.chains.stellar.xdr.skip import skipper
from indexer.config.networks import load_network
from indexer.decode import decode
from tests.system.bench.ledger_node import LedgerNode, full_ledgers, serving
from warehouse_schema.identifiers import Height

CHAIN = load_network("devnet").stellar
FIRST, LEDGERS, TRANSFERS = 100, 3, 20


@pytest.fixture
def node() -> LedgerNode:
    made = LedgerNode(CHAIN, list(full_ledgers(CHAIN, FIRST, LEDGERS, TRANSFERS, 50, 0.6)))
    made.latest = FIRST + LEDGERS - 1
    return made


@pytest.mark.parametrize("page", [7, 20, 1_000])
def test_reader_reads_every_transfer(
    node: LedgerNode, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventNode, "events_per_call", page)
    with serving(node) as url:
        reader = StellarReader(CHAIN, [url])
        reader.check_identity()
        head = reader.head()
        found = reader.read(Height(FIRST), head.height, _Everything())
        reader.close()
    assert [block.height for block in found.blocks] == [100, 101, 102]
    assert [block.close_time_ms for block in found.blocks[1:]] == [1767225601200, 1767225601800]
    events = [decode(event, CHAIN) for event in found.events]
    assert len(events) == LEDGERS * TRANSFERS
    assert sum(each.amount for each in events) == sum(each.amount for each in node._ledgers)
    assert sum(each.to_muxed_id is not None for each in events) == LEDGERS * 2


def test_ledger_above_the_latest_is_not_served(node: LedgerNode) -> None:
    node.latest = FIRST
    asked = {"startLedger": FIRST, "pagination": {"limit": 10}}
    assert b"".join(node.answer("getLedgers", asked)).count(b"metadataXdr") == 1
    with pytest.raises(ValueError, match="ledger 101"):
        node.answer("getLedgers", {**asked, "startLedger": FIRST + 1})


def test_meta_is_a_ledger_of_protocol_30(node: LedgerNode) -> None:
    asked = {"startLedger": FIRST, "pagination": {"limit": 1}}
    answer = b"".join(node.answer("getLedgers", asked))
    raw = base64.b64decode(answer.partition(b'"metadataXdr":"')[2].partition(b'"')[0])
    block = block_of_meta(raw, CHAIN.id)
    assert (block.height, block.protocol_version) == (FIRST, 30)
    assert skipper("LedgerCloseMeta")(raw, 0) == len(raw)


class _Everything:
    """A watchlist of all addresses."""

    def intersection(self, addresses):
        return addresses

    def addresses_up_to(self, limit):
        return None

    def recent_up_to(self, limit):
        return None
