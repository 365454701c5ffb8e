"""`isthmus rescan`: output and alarms."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import URL, Engine

from indexer.chains.ports import Range
from indexer.chains.watchlist import Watched
from indexer.cli.main import main
from indexer.config.settings import load_settings, start_variable
from indexer.errors import RangeTooWide
from indexer.facts.alarms import open_alarms
from indexer.ingest.rescan import rescan
from tests.factories.fake_chain import ETHEREUM, FakeChain
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.system.replay.serving import serving
from warehouse_schema.identifiers import Height

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def chain() -> FakeChain:
    """Ethereum, 500 blocks high, with a send in each."""
    network = load_settings(
        {"ISTHMUS_NETWORK": "mainnet", start_variable(ETHEREUM): "1"}, needs_database=False
    ).network
    (ethereum,) = (each for each in network.evm if each.id == ETHEREUM)
    chain = FakeChain(replace(network, evm=(replace(ethereum, log_proof="none"),)))
    chain.grow(500)
    return chain


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database: URL,
    chain: FakeChain,
) -> Iterator[Run]:
    """Call it with the ends of a range; exit code, output and complaints."""
    with serving(FakeEvmNode(chain)) as url:
        plain = database.set(drivername="postgresql").render_as_string(hide_password=False)
        monkeypatch.setenv("ISTHMUS_NETWORK", "mainnet")
        monkeypatch.setenv("DATABASE_URL", plain)
        # The node's headers have no more fields than these tests read.
        monkeypatch.setenv("ISTHMUS_LOG_PROOF_EIP155_1", "none")

        def call(first: int, last: int) -> tuple[int, str, str]:
            ends = ["--from", str(first), "--to", str(last)]
            arguments = ["--chain", ETHEREUM, *ends, "--node", url]
            code = main(["rescan", *arguments])
            out, err = capsys.readouterr()
            return code, out, err

        yield call


def ingest(engine: Engine, chain: FakeChain) -> None:
    while ingest_once(engine, chain, chain.network) is not None:
        pass


def test_equal_range_is_printed_in_steps(
    run: Run, indexer_engine: Engine, chain: FakeChain
) -> None:
    ingest(indexer_engine, chain)
    code, out, err = run(1, 400)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "eip155:1 1–200: no differences",
        "eip155:1 201–400: no differences",
    ]


def test_log_omitted_by_a_node_is_found_and_alarmed(
    run: Run, indexer_engine: Engine, chain: FakeChain
) -> None:
    logs = chain.logs[chain.blocks[250].hash]
    left_out = logs.pop()
    ingest(indexer_engine, chain)
    logs.append(left_out)
    code, out, err = run(1, 400)
    assert err == ""
    assert code == 1
    assert "eip155:1 201–400: 1 differences" in out
    assert f"log {left_out.seen.position} of block 250 is not stored" in out
    with indexer_engine.connect() as conn:
        (alarm,) = open_alarms(conn)
    assert (alarm.kind, alarm.subject) == ("rescan", "201-400")


def test_range_before_finality_is_refused(
    run: Run, indexer_engine: Engine, chain: FakeChain
) -> None:
    assert "is stored and final up to 0, not to 400" in run(1, 400)[2]
    ingest(indexer_engine, chain)
    final = 500 - chain.network.evm[0].confirmations
    code, out, err = run(1, final + 1)
    assert (code, out) == (2, "")
    assert f"eip155:1 is stored and final up to {final}, not to {final + 1}" in err


def test_range_that_is_too_wide_is_compared_in_parts(engine: Engine, chain: FakeChain) -> None:
    ingest(engine, chain)
    named = chain.network.chain(ETHEREUM)
    read: list[tuple[int, int]] = []

    def narrow(first: Height, last: Height, watched: Watched) -> Range:
        if last - first >= 40:
            raise RangeTooWide("too many events")
        read.append((first, last))
        return chain.read(first, last, watched)

    assert rescan(engine, narrow, named, Height(1), Height(100)) == []
    assert read == [(1, 25), (26, 50), (51, 75), (76, 100)]

    def forgetful(first: Height, last: Height, watched: Watched) -> Range:
        return replace(narrow(first, last, watched), events=())

    assert len(rescan(engine, forgetful, named, Height(1), Height(100))) > 1
    with engine.connect() as conn:
        [alarm] = open_alarms(conn)
    assert alarm.subject == "1-100"


def test_block_that_is_too_wide_is_an_error(engine: Engine, chain: FakeChain) -> None:
    ingest(engine, chain)

    def refuse(*_: object) -> Range:
        raise RangeTooWide("too many events")

    with pytest.raises(RangeTooWide):
        rescan(engine, refuse, chain.network.chain(ETHEREUM), Height(1), Height(4))
