"""A planted fault of a node, or of a service, gives its finding and no other."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.evm_node import AnvilProcess, JsonRpc
from devnet.local_server import Handler, Server, answering
from indexer.config.networks import Network
from indexer.doctor.checks import DoctorContext
from indexer.doctor.evm_nodes import EvmNodeChecks
from tests.indexer.doctor.conftest import EVM, STELLAR, Surroundings, found
from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead, refusal
from tests.system.faults.proxy import FaultyHttp
from tests.system.faults.refusals import NoTags, RangeLimit, Refuses, ServerError
from warehouse_schema.identifiers import Height


class OtherResult(ReplyFault):
    """Answers a method with another result, or with changed members of the real one."""

    def __init__(self, method: str, changed: Any) -> None:
        super().__init__()
        self.method, self.changed = method, changed

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != self.method:
            return reply
        is_partial = isinstance(self.changed, dict)
        return instead(reply, {**reply["result"], **self.changed} if is_partial else self.changed)


class PrunedBelow(ReplyFault):
    """Has forgotten the blocks below a height, as a node without an archive."""

    def __init__(self, height: int) -> None:
        super().__init__()
        self.height = height

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber" or not call["params"][0].startswith("0x"):
            return reply
        is_gone = int(call["params"][0], 16) < self.height
        return refusal(reply, "pruned history unavailable") if is_gone else reply


def evm_subject(url: str) -> str:
    return f"{EVM} {url.partition('://')[2]}"


def stellar_subject(url: str) -> str:
    return f"{STELLAR} {url.partition('://')[2]}"


@contextmanager
def stellar_node(around: Surroundings, **members: Any) -> Iterator[str]:
    """URL of the local Stellar node, some of whose methods answer with other members."""
    with closing(_StellarProxy(around.stellar_url)) as proxy:
        for method, changed in members.items():
            proxy.inject(OtherResult(method, changed))
        yield proxy.url


class _StellarProxy(FaultyHttp):
    """Stellar RPC takes no batches."""

    def _ask(self, calls: list[Call]) -> list[Reply]:
        [call] = calls
        return [self._client.post(self._upstream, json=call).json()]


# EVM nodes


def test_wrong_chain_id_is_found(around: Surroundings) -> None:
    around.evm_node.inject(OtherResult("eth_chainId", "0x1"))
    [finding] = around.findings()
    assert (finding.check, finding.subject) == ("node.chain_id", evm_subject(around.evm_node.url))
    assert "serves eip155:1, not eip155:31337" in finding.problem


def test_dead_node_is_one_finding_without_its_key(around: Surroundings) -> None:
    around.evm_node.inject(ServerError())
    url = around.evm_node.url
    settings = around.settings(evm=[f"{url}/v3/secret-key"])
    [finding] = around.findings(settings)
    assert (finding.check, finding.subject) == ("node.answers", evm_subject(url))
    assert "secret-key" not in str(finding)


def test_stellar_node_given_for_evm_is_found(around: Surroundings) -> None:
    [finding] = around.findings(around.settings(evm=[around.stellar_url]))
    assert finding.check == "node.chain_id"
    assert "names a Stellar node" in finding.problem


@contextmanager
def other_chain(folder: Path, genesis_time: int | None = None) -> Iterator[str]:
    """URL of another chain of the same id, 80 blocks high."""
    with (
        AnvilProcess(folder / "other.log", genesis_time=genesis_time) as process,
        JsonRpc(process.rpc_url) as rpc,
    ):
        rpc("anvil_mine", "0x50")
        yield process.rpc_url


@pytest.mark.parametrize(
    ("shift", "problem"),
    [(-3600, "s old, more than 80 s"), (3600, "s ahead of this machine's clock")],
    ids=["old", "from the future"],
)
def test_time_of_newest_block_is_found(
    around: Surroundings, tmp_path: Path, shift: int, problem: str
) -> None:
    with other_chain(tmp_path, int(time.time()) + shift) as url:
        [finding] = around.findings(around.settings(evm=[url]), "nodes")
    assert (finding.check, finding.subject) == ("node.clock", evm_subject(url))
    assert finding.problem.endswith(problem)


def test_node_without_archive_is_found(around: Surroundings) -> None:
    height = int(around.evm.rpc("eth_blockNumber"), 16)
    chain = replace(around.network.evm[0], start_height=Height(height - 3))
    network = replace(around.network, evm=(chain,))
    assert around.findings(around.settings(network)) == []
    # The follower's widest request begins after the gap: only older blocks are gone.
    chain = replace(chain, start_height=Height(0))
    around.evm.rpc("anvil_mine", "0x100")
    around.evm_node.inject(PrunedBelow(20))
    network = replace(around.network, evm=(chain,))
    [finding] = around.findings(around.settings(network))
    assert (finding.check, finding.subject) == ("node.history", evm_subject(around.evm_node.url))
    assert "block 0 cannot be read" in finding.problem


def test_node_is_read_though_the_follower_has_caught_up(around: Surroundings) -> None:
    height = Height(int(around.evm.rpc("eth_blockNumber"), 16) + 1)
    checks = EvmNodeChecks(around.network.evm[0], around.evm_node.url, height)
    results = list(checks.run(DoctorContext(around.settings())))
    assert {"node.logs", "node.history"} <= {result.check for result in results}
    assert found([result for result in results if result.is_finding]) == []


def test_narrow_log_range_is_found_with_the_width_that_works(around: Surroundings) -> None:
    around.evm_node.inject(RangeLimit(30))
    [finding] = around.findings()
    assert (finding.check, finding.subject) == ("node.logs", evm_subject(around.evm_node.url))
    assert "blocks at once work" in finding.problem


def test_refused_logs_are_one_finding(around: Surroundings) -> None:
    around.evm_node.inject(Refuses("eth_getLogs", "this method needs a paid plan"))
    assert found(around.findings()) == [("node.logs", evm_subject(around.evm_node.url))]


def test_dead_web_socket_is_found(around: Surroundings) -> None:
    settings = around.settings(evm=[around.evm_node.url, "ws://127.0.0.1:9/key"])
    assert found(around.findings(settings)) == [("node.web_socket", f"{EVM} 127.0.0.1:9")]


@pytest.fixture
def second(around: Surroundings) -> Iterator[FaultyHttp]:
    """A node of another operator, on another address of this machine."""
    with closing(FaultyHttp(around.evm.rpc.url, host="127.0.0.2")) as node:
        yield node


def by_operators(around: Surroundings) -> Network:
    return replace(around.network, evm=(replace(around.network.evm[0], log_proof="operators"),))


def test_two_operators_have_no_finding(around: Surroundings, second: FaultyHttp) -> None:
    nodes = [around.evm_node.url, second.url]
    assert around.findings(around.settings(by_operators(around), evm=nodes)) == []


def test_node_without_finality_tags_beside_one_with_them_is_found(
    around: Surroundings, second: FaultyHttp
) -> None:
    second.inject(NoTags())
    settings = around.settings(evm=[around.evm_node.url, second.url])
    assert found(around.findings(settings)) == [("node.finality_tags", evm_subject(second.url))]


def test_one_operator_where_two_must_agree_is_found(around: Surroundings) -> None:
    [finding] = around.findings(around.settings(by_operators(around)))
    assert (finding.check, finding.subject) == ("node.operators", EVM)
    assert "named: 127.0.0.1" in finding.problem


def test_one_machine_under_two_names_is_found(around: Surroundings) -> None:
    url = around.evm_node.url
    settings = around.settings(evm=[url, url.replace("127.0.0.1", "localhost")])
    [finding] = around.findings(settings)
    assert (finding.check, finding.subject) == ("node.operators", EVM)
    assert "127.0.0.1 and localhost count as two operators" in finding.problem


def test_nodes_of_two_forks_are_found(around: Surroundings, tmp_path: Path) -> None:
    with other_chain(tmp_path) as url:
        settings = around.settings(evm=[around.evm_node.url, url])
        [finding] = around.findings(settings, "nodes")
    assert (finding.check, finding.subject) == ("node.agreement", EVM)
    assert f"at {evm_subject(around.evm_node.url)}" in finding.problem
    assert f"at {evm_subject(url)}" in finding.problem


def test_forged_header_is_found(around: Surroundings) -> None:
    around.evm_node.inject(OtherResult("eth_getBlockByNumber", {"hash": "0x" + "0f" * 32}))
    [finding] = around.findings()
    assert (finding.check, finding.subject) == ("node.answers", evm_subject(around.evm_node.url))
    assert "hashes to" in finding.problem


def test_chain_without_http_url_is_found(around: Surroundings) -> None:
    settings = around.settings(evm=[around.evm_node.ws_url])
    assert found(around.findings(settings)) == [("node.answers", EVM)]


# Stellar nodes


def test_wrong_passphrase_is_found(around: Surroundings) -> None:
    other = {"passphrase": "Public Global Stellar Network ; September 2015"}
    with stellar_node(around, getNetwork=other) as url:
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("node.chain_id", stellar_subject(url))]


def test_unhealthy_stellar_node_is_found(around: Surroundings) -> None:
    with stellar_node(around, getHealth={"status": "unhealthy"}) as url:
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("node.healthy", stellar_subject(url))]


def test_old_stellar_rpc_is_found(around: Surroundings) -> None:
    with stellar_node(around, getVersionInfo={"version": "27.1.1"}) as url:
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("node.version", stellar_subject(url))]


def test_protocol_ahead_is_found(around: Surroundings) -> None:
    with stellar_node(around, getVersionInfo={"captiveCoreVersion": "stellar-core 31.0.0"}) as url:
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("node.protocol", stellar_subject(url))]


def test_protocol_that_this_build_cannot_read_is_found(around: Surroundings) -> None:
    with stellar_node(around, getNetwork={"protocolVersion": 31}) as url:
        results = around.findings(around.settings(stellar=[url]))
    assert found(results) == [("node.protocol", stellar_subject(url))]


def test_retention_after_start_is_found_unless_there_is_a_lake(around: Surroundings) -> None:
    with stellar_node(around, getHealth={"oldestLedger": 10}) as url:
        settings = around.settings(stellar=[url])
        [finding] = around.findings(settings)
        with_lake = replace(settings, lakes={STELLAR: "/nowhere"})
        assert around.findings(with_lake) == []
    assert (finding.check, finding.subject) == ("node.history", stellar_subject(url))
    assert "ledger 2 is gone: its oldest is 10" in finding.problem


# Services


def test_silent_attestation_service_is_one_finding(around: Surroundings) -> None:
    network = replace(around.network, iris="http://127.0.0.1:9")
    assert found(around.findings(around.settings(network), "services")) == [
        ("service.iris", "127.0.0.1:9")
    ]


def test_network_without_attestation_service_is_found(around: Surroundings) -> None:
    network = replace(around.network, iris=None)
    assert found(around.findings(around.settings(network), "services")) == [
        ("service.iris", "devnet")
    ]


@contextmanager
def web_server(status: int, body: bytes) -> Iterator[str]:
    """Answers every GET like this."""

    class RequestHandler(Handler):
        def do_GET(self) -> None:
            self.answer(status, body, {"Content-Type": "application/json"})

    with answering(Server(("127.0.0.1", 0), RequestHandler)) as url:
        yield url


def test_attestation_service_without_a_fee_is_found(around: Surroundings) -> None:
    with web_server(404, b'{"code": 404, "message": "Not found"}') as url:
        network = replace(around.network, iris=url)
        results = around.findings(around.settings(network), "services")
    host = url.partition("://")[2]
    assert found(results) == [
        ("service.iris_fees", f"{host} {EVM} to {STELLAR}"),
        ("service.iris_fees", f"{host} {STELLAR} to {EVM}"),
    ]


def test_explorer_of_another_api_is_found(around: Surroundings) -> None:
    with web_server(200, b"[]") as url:
        network = replace(around.network, iris=around.iris_url, lz_scan=url)
        results = around.findings(around.settings(network), "services")
    assert found(results) == [("service.lz_scan", url.partition("://")[2])]
    with web_server(404, b'{"message": "Not found"}') as url:
        network = replace(around.network, lz_scan=url)
        assert around.findings(around.settings(network), "services") == []
