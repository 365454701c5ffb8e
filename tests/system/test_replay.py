"""`make replay`: results on the recorded data."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.engine import URL

from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.stellar.xdr.ledgers import Ledger, LedgerProof
from indexer.config.networks import EvmChain, load_network
from indexer.errors import InconsistentAnswer
from tests.factories.stellar_recorded import PUBNET, TESTNET, recorded_oft_send
from tests.system.replay import recordings
from tests.system.replay.databases import recreate
from tests.system.replay.findings import Findings, replay
from tests.system.replay.ingest import NETWORKS, replayed_ledger
from tests.system.replay.movements import Amount, decimal
from tests.system.replay.report import page, summary
from tests.system.replay.scaffolding import MARK, completed_hash, is_made_up, made_up_hash
from tests.system.replay.serving import serving
from tests.system.replay.stellar_node import RecordedStellarNode
from warehouse_schema.embedded import Server
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import BlockHash, Height, StellarAddress

OTHER_CONTRACT = StellarAddress("CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75")
"""USDC's, which is some other contract to every other asset."""


@pytest.fixture(scope="module")
def warehouses(clone: Callable[[], URL]) -> Iterator[dict[str, Engine]]:
    """Network name → the warehouse that the replay filled; filled once for the whole module."""
    engines: dict[str, Engine] = {}
    yield engines
    for engine in engines.values():
        engine.dispose()


@pytest.fixture(scope="module")
def findings(warehouses: dict[str, Engine], clone: Callable[[], URL]) -> Findings:
    def open_warehouse(network: str) -> Engine:
        return warehouses.setdefault(network, make_engine(clone(), role="indexer"))

    return replay(open_warehouse)


def test_replay_equals_the_golden_numbers(
    findings: Findings, golden: Callable[[str, object], None]
):
    golden("replay.json", summary(findings))


def test_replay_has_no_differences_or_undecodable_events(findings: Findings):
    assert findings.is_sound
    assert [each.differences for each in findings.warehouses] == [(), (), ()]
    assert [each.undecodable for each in findings.warehouses] == [0, 0, 0]


def test_ledgers_closed_as_newer_protocols_are_the_same(findings: Findings):
    assert [each.protocol for each in findings.newer] == [29, 30]
    assert all(each.is_same for each in findings.newer)
    assert [each.with_milliseconds for each in findings.newer] == [0, 9]


def test_asset_events_come_from_contracts_of_their_assets(findings: Findings):
    kinds = sum((ledger.movements for ledger in findings.ledgers), Counter())
    assert kinds.total() == 2169
    assert [each for ledger in findings.ledgers for each in ledger.look_alikes] == []


def test_every_invocation_in_ledgers_is_proven(findings: Findings):
    assert sum(ledger.proof.invocations for ledger in findings.ledgers) == 8
    assert [ledger.proof.unproven for ledger in findings.ledgers] == [()] * 9


def test_stellar_burn_has_seven_decimals(findings: Findings):
    (burn,) = (each for each in findings.movements if each.source == "Stellar" and each.source_tx)
    assert burn.sent == Amount(20_000_000, 7, "deposit_for_burn")
    assert burn.arrived is not None
    assert (burn.arrived.units, burn.arrived.decimals) == (2_000_000, 6)
    assert burn.arrived.told_by.startswith("no less than")


def test_stellar_mint_has_burned_amount_and_fee(findings: Findings):
    (mint,) = (
        each for each in findings.movements if (each.source, each.fee and each.fee.units) ==
        ("Base", 3_634)
    )  # fmt: skip
    assert (mint.sent, mint.arrived) == (
        Amount(27_960_598, 6, "burn message inside the mint"),
        Amount(279_569_640, 7, "mint_and_withdraw"),
    )
    assert mint.sent is not None
    assert mint.arrived is not None
    assert mint.sent.units - 3_634 == mint.arrived.units // 10


def test_recorded_attestations_are_by_known_attesters(findings: Findings):
    assert Counter(each.is_attested for each in findings.messages) == {True: 3, None: 3}
    assert [each.events for each in findings.messages if each.events] == [
        ("MessageReceived on eip155:5042002",)
    ]


def test_recorded_hashes_are_stored_unchanged(findings: Findings, warehouses: dict[str, Engine]):
    stored = _hashes(warehouses["layerzero"], "eip155:55244")
    for log in recordings.layerzero_logs().values():
        assert stored[log.height] == log.block_hash
    ledgers = _hashes(warehouses["mainnet"], "stellar:pubnet")
    expected = json.loads((recordings.GOLDEN / "stellar/expected/ledgers.json").read_text())
    for each in expected:
        assert ledgers[each["block"]["height"]] == each["block"]["hash"]


def test_synthetic_blocks_are_not_counted_as_genuine(findings: Findings):
    genuine = {
        chain.chain: (chain.blocks, chain.genuine_blocks)
        for warehouse in findings.warehouses
        for chain in warehouse.chains
    }
    assert genuine == {
        "stellar:pubnet": (23, 9),
        "stellar:testnet": (1, 0),
        "eip155:11155111": (2, 0),
        "eip155:5042002": (2, 0),
        "eip155:55244": (5, 4),
    }


def test_parents_of_recorded_blocks_are_synthetic(
    findings: Findings, warehouses: dict[str, Engine]
):
    with warehouses["layerzero"].connect() as conn:
        parents = list(conn.scalars(text("SELECT parent_hash FROM facts.blocks")))
    assert all(map(is_made_up, parents))


def test_page_separates_recorded_from_synthetic_data(findings: Findings):
    printed = page(findings)
    assert MARK in printed
    assert "20000000 = 2.0000000   [deposit_for_burn]" in printed
    assert "27960598 = 27.960598   [burn message inside the mint]" in printed
    assert "none: every contract that names an asset" in printed
    assert "no less than: burn's amount - max fee" in printed


def test_look_alike_is_listed_with_contract_and_named_asset(findings: Findings):
    burn, *fees, _packet, _send = recorded_oft_send()
    native = next(event for event in fees if event.topics[-1].endswith(b"native\0\0"))
    forged = replace(native, contract=OTHER_CONTRACT)
    ledger = Ledger(_block_of(native), (), (burn, native, forged), ())
    counted = replayed_ledger(ledger, LedgerProof(0, ()), TESTNET.passphrase)
    assert counted.movements == {"burn": 1, "transfer": 1}
    (look_alike,) = counted.look_alikes
    assert (look_alike.contract, look_alike.claimed) == (OTHER_CONTRACT, "stellar:native")
    assert f"{OTHER_CONTRACT}  stellar:native" in page(replace(findings, ledgers=(counted,)))


def test_replay_testnets_equal_the_shipped_ones():
    ours, shipped = load_network("testnet", folder=NETWORKS), load_network("testnet")
    for chain in ours.evm:
        if chain.id in {each.id for each in shipped.evm}:
            assert _contracts(chain) == _contracts(shipped.chain(chain.id))
    without_oft = replace(
        ours.stellar,
        start_height=shipped.stellar.start_height,
        explorer_tx=shipped.stellar.explorer_tx,
        explorer_account=shipped.stellar.explorer_account,
        explorer_contract=shipped.stellar.explorer_contract,
        watched=(),
        **dict.fromkeys(("lz_eid", "usdt0", "usdt0_contract", "oft", "lz_endpoint")),
    )
    assert without_oft == shipped.stellar


def test_recorded_node_lacks_unrecorded_ledgers():
    with serving(RecordedStellarNode(PUBNET, recordings.cctp_events())) as url:
        reader = StellarReader(PUBNET, [url])
        with pytest.raises(InconsistentAnswer, match="was not recorded"):
            reader.block(Height(63_000_000))
        reader.close()


def test_completed_hash_keeps_ends_and_is_marked():
    completed = completed_hash("0xce93dc50...c46ca1c9 (truncated in source)")
    assert len(completed) == 66
    assert (completed[:10], completed[-8:]) == ("0xce93dc50", "c46ca1c9")
    assert is_made_up(completed)
    assert is_made_up(made_up_hash("anything"))
    assert not is_made_up("0x" + "ab" * 32)


def test_decimals_are_formatted_without_floats():
    assert decimal(27_960_598, 6) == "27.960598"
    assert decimal(5, 7) == "0.0000005"
    assert decimal(2**200, 6) == f"{2**200 // 10**6}.{2**200 % 10**6:06d}"


def test_database_of_the_last_replay_is_replaced(postgres: Server):
    url = make_url(postgres.url("isthmus_replay_test"))
    recreate(url)
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE facts.of_the_last_replay ()"))
    recreate(url)
    with engine.connect() as conn:
        left = conn.scalar(text("SELECT to_regclass('facts.of_the_last_replay')"))
        blocks = conn.scalar(text("SELECT count(*) FROM facts.blocks"))
    assert (left, blocks) == (None, 0)


def _block_of(event: StellarEvent) -> Block:
    seen = event.seen
    return Block(seen.chain, seen.height, seen.block_hash, BlockHash("00"), seen.block_time, 23)


def _hashes(engine: Engine, chain: str) -> dict[int, str]:
    with engine.connect() as conn:
        rows = conn.execute(
            text("SELECT height, hash FROM facts.blocks WHERE chain = :chain"), {"chain": chain}
        )
        return {row.height: row.hash for row in rows}


def _contracts(chain: object) -> tuple[object, ...]:
    assert isinstance(chain, EvmChain)
    return (
        chain.number,
        chain.cctp_domain,
        chain.usdc,
        chain.cctp_token_messenger,
        chain.cctp_message_transmitter,
    )
