"""`/metrics`: values, sums over workers, and the port that serves them."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine

from api.app import create_app
from api.deps import Deps
from api.metrics import Exporter, Metrics
from api.settings import load_api_settings
from api.warehouse_metrics import WarehouseMetrics
from devnet.supervisor import free_port
from indexer.cli.main import main
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories.api_server import TIMEOUT, serving
from tests.factories.app import NOW
from tests.factories.projections import STELLAR, insert_cursor
from warehouse_schema.identifiers import UnixSeconds

SEPOLIA = "eip155:11155111"

TESTNET = load_network("testnet")


def figures(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample → values of its labels, by the names' order → figure."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


PORT = "9464"


def watched(engine, *, age=7):
    """An app's client, and what it counts."""
    metrics = Metrics()
    app = create_app(Deps(engine, TESTNET, lambda: UnixSeconds(NOW), metrics=metrics))
    warehouse = WarehouseMetrics(engine, TESTNET, lambda: age)
    app.wsgi_app = Exporter(app.wsgi_app, metrics, warehouse, port=PORT)
    return app.test_client(), metrics


def read(client):
    answer = client.get("/metrics", environ_overrides={"SERVER_PORT": PORT})
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    return figures(answer.get_data(as_text=True))


def test_requests_are_counted_by_route_method_and_status(reader, book):
    client, _ = watched(reader)
    for path in ("/api/v1/orderbook", "/api/v1/orderbook", "/api/v1/orderbook?currency=EURO"):
        client.get(path)
    client.get("/api/v1/providers/secret")
    client.post("/healthz")
    found = read(client)
    assert found["isthmus_requests_total"] == {
        ("GET", "/api/v1/orderbook", "200"): 2,
        ("GET", "/api/v1/orderbook", "400"): 1,
        ("GET", "/api/v1/providers/<address>", "400"): 1,
        ("POST", "unmatched", "405"): 1,
    }
    assert found["isthmus_request_seconds_count"][("/api/v1/orderbook",)] == 3
    assert found["isthmus_request_seconds_bucket"][("+Inf", "/api/v1/orderbook")] == 3


def test_client_input_adds_no_label_values(reader):
    client, _ = watched(reader)
    for number in range(50):
        client.get(f"/nothing/{number}")
        client.open("/healthz", method=f"BREW{number}")
    found = read(client)
    assert found["isthmus_requests_total"] == {
        ("GET", "unmatched", "404"): 50,
        ("OTHER", "unmatched", "405"): 50,
    }


def test_ingestion_is_read_at_scrape(reader, book):
    insert_cursor(book, STELLAR)
    insert_cursor(book, SEPOLIA, held="wrong chain", protocol_ahead=31)
    client, _ = watched(reader)
    found = read(client)
    assert found["isthmus_chain_well"] == {(STELLAR,): 1, (SEPOLIA,): 0}
    assert found["isthmus_protocol_ahead"] == {(STELLAR,): 0, (SEPOLIA,): 31}
    assert found["isthmus_warehouse_up"] == {(): 1}
    assert found["isthmus_orderbook_age_seconds"] == {(): 7}
    assert set(found["isthmus_ingestion_idle_seconds"]) == {(STELLAR,), (SEPOLIA,)}


def test_lost_database_sets_warehouse_up_to_zero():
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    client, _ = watched(engine)
    found = read(client)
    assert found["isthmus_warehouse_up"] == {(): 0}
    assert "isthmus_ingestion_lag_seconds" not in found
    engine.dispose()


def test_refusals_and_logins_are_counted(reader):
    client, metrics = watched(reader)
    metrics.rate_limited("reads")
    client.post("/auth", data="x")
    client.post("/auth", data="x")
    found = read(client)
    assert found["isthmus_rate_limited_total"] == {("reads",): 1}
    assert found["isthmus_logins_total"] == {("sep10", "SIGN_IN_OFF"): 2}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "192.0.2.1", ""])
def test_api_port_serves_no_metrics(reader, address):
    client, _ = watched(reader)
    # A proxy on the same machine that adds no header looks like a local program.
    answer = client.get("/metrics", environ_overrides={"REMOTE_ADDR": address})
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")


def test_unset_metrics_address_serves_nothing():
    assert load_api_settings({}).metrics is None


def test_metrics_port_serves_metrics_only(reader):
    client, _ = watched(reader)
    assert client.get("/metrics").status_code == 404
    own = {"SERVER_PORT": "9464", "REMOTE_ADDR": "192.0.2.1"}
    assert client.get("/metrics", environ_overrides=own).status_code == 200
    assert client.get("/healthz", environ_overrides=own).status_code == 404
    # The port that a client names is not the one that it reached.
    named = {"HTTP_HOST": "localhost:9464"}
    assert client.get("/metrics", environ_overrides=named).status_code == 404
    # On a Unix socket gunicorn would believe it: such a request has no address.
    over_a_socket = {"SERVER_PORT": "9464", "REMOTE_ADDR": ""}
    assert client.get("/metrics", environ_overrides=over_a_socket).status_code == 404


def test_metrics_of_all_workers_are_summed(api_database, book, tmp_path):
    port = free_port()
    with serving(
        api_database, tmp_path, workers=2, settings={"ISTHMUS_METRICS": f"127.0.0.1:{port}"}
    ) as server:
        own = f"http://127.0.0.1:{port}/metrics"
        for _ in range(40):
            # A connection each, so that both workers get some.
            assert httpx.get(f"{server.url}/healthz", timeout=TIMEOUT).status_code == 200
        for _ in range(8):
            found = figures(httpx.get(own, timeout=TIMEOUT).text)
            assert found["isthmus_requests_total"][("GET", "/healthz", "200")] == 40
            assert found["isthmus_request_seconds_count"][("/healthz",)] == 40
        assert httpx.get(f"{server.url}/metrics", timeout=TIMEOUT).status_code == 404
        assert httpx.get(own.replace("metrics", "healthz"), timeout=TIMEOUT).status_code == 404


def test_counts_survive_their_worker(api_database, book, tmp_path):
    port = free_port()
    metrics = {"ISTHMUS_METRICS": f"127.0.0.1:{port}"}
    with serving(api_database, tmp_path, workers=1, settings=metrics) as server:
        for _ in range(2):
            # A worker that has not begun to serve would leave before it did.
            assert httpx.get(f"{server.url}/healthz", timeout=TIMEOUT).status_code == 200
            server.end_workers()
        counted = figures(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT).text)
        assert counted["isthmus_requests_total"][("GET", "/healthz", "200")] == 2
        assert server.stop() == 0


@pytest.mark.parametrize("text", ["9464", "host:", ":9464", "host:0", "http://host:1"])
def test_bad_metrics_address_is_refused(text):
    with pytest.raises(ConfigurationError, match="ISTHMUS_METRICS"):
        load_api_settings({"ISTHMUS_METRICS": text})


def test_metrics_port_must_differ_from_api_port(monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("ISTHMUS_METRICS", "127.0.0.1:8080")
    assert main(["api", "--bind", "0.0.0.0:8080"]) == 2
    assert (
        "ISTHMUS_METRICS is '127.0.0.1:8080', but port 8080 is the API's" in capsys.readouterr().err
    )
