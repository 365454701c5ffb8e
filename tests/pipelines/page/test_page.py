"""Dagster's page behind its password, and requests from other sites."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from devnet.keys import in_files
from devnet.services import isthmus
from devnet.supervisor import free_port
from indexer.errors import ConfigurationError
from pipelines.page.settings import load_page_settings

PASSWORD = "an operator's own word"
LOGIN = ("operator", PASSWORD)
JSON = "application/json"
PROTOCOL = Subprotocol("graphql-ws")
EVIL = "https://evil.example"
PUBLIC = "https://dagster.example.com"


@dataclass(frozen=True)
class Page:
    """A running page, and the records it shows."""

    url: str
    instance: dg.DagsterInstance

    def new_run(self) -> str:
        """A run that counts as under way."""
        run = self.instance.create_run_for_job(relay)
        self.instance.handle_run_event(
            run.run_id,
            dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job_name="relay"),
        )
        return run.run_id

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def ask(self, method: str = "POST", path: str = "/graphql", **given: object) -> httpx.Response:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as http:
            return http.request(method, path, **given)  # type: ignore[arg-type]


@dg.op
def send() -> None:
    """Sends nothing."""


@dg.job
def relay() -> None:
    send()


def terminate(run_id: str) -> str:
    return (
        f'mutation {{ terminateRun(runId: "{run_id}", '
        "terminatePolicy: MARK_AS_CANCELED_IMMEDIATELY) { __typename } }"
    )


@contextmanager
def served(home: Path, **environment: str) -> Iterator[Page]:
    """`isthmus page` on records of its own."""
    home.mkdir()
    (home / "dagster.yaml").touch()
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if "DAGSTER" not in name}
    # Nothing listens there: the page has no code server.
    kept["ISTHMUS_CODE_SERVER_PORT"] = str(free_port())
    process = subprocess.Popen(
        isthmus("page", "--port", str(port)),
        env={**kept, **environment, "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"},
    )
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            page = Page(f"http://127.0.0.1:{port}", instance)
            while not answers(page):
                assert process.poll() is None, "the page ended before it answered"
                time.sleep(0.1)
            yield page
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def answers(page: Page) -> bool:
    try:
        return page.ask("GET", "/server_info").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    home = tmp_path_factory.mktemp("page") / "home"
    variables = in_files(home.parent / "keys", {"ISTHMUS_PAGE_PASSWORD": PASSWORD})
    with served(home, ISTHMUS_PAGE_URL=PUBLIC, **variables) as page:
        yield page


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with served(tmp_path_factory.mktemp("read_only") / "home") as page:
        yield page


def test_operator_can_terminate_a_run(page: Page) -> None:
    run_id = page.new_run()
    for origin in ({}, {"Origin": page.url}):
        answer = page.ask(json={"query": terminate(run_id)}, auth=LOGIN, headers=origin)
        assert answer.status_code == 200
    assert page.status(run_id) == dg.DagsterRunStatus.CANCELED


def test_operator_reads_the_page(page: Page) -> None:
    answer = page.ask("GET", "/runs", auth=LOGIN)
    assert answer.status_code == 200
    assert "<html" in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


def cross_site(url: str, query: str) -> dict[str, tuple[int, dict[str, object]]]:
    """Requests that a browser sends from any page, and the status they get."""
    body = json.dumps({"query": query})
    port = url.rpartition(":")[2]
    evil = {"Origin": EVIL, "Content-Type": JSON}
    return {
        "get": (405, {"method": "GET", "params": {"query": query}}),
        "image": (405, {"method": "GET", "params": {"query": query}, "headers": {"Accept": "*/*"}}),
        "form": (403, {"params": {"query": query}, "headers": {"Origin": EVIL}}),
        "form without origin": (415, {"params": {"query": query}, "data": {"a": "b"}}),
        "text": (
            415,
            {
                "params": {"query": query},
                "content": body,
                "headers": {"Content-Type": "text/plain"},
            },
        ),
        "json in disguise": (
            415,
            {"content": body, "headers": {"Content-Type": "text/plain; x=application/json"}},
        ),
        "graphql": (415, {"content": query, "headers": {"Content-Type": "application/graphql"}}),
        "foreign origin": (403, {"content": body, "headers": evil}),
        "null origin": (403, {"content": body, "headers": {**evil, "Origin": "null"}}),
        "another port": (
            403,
            {"content": body, "headers": {**evil, "Origin": "http://127.0.0.1:1"}},
        ),
        "fetch metadata": (
            403,
            {"content": body, "headers": {"Content-Type": JSON, "Sec-Fetch-Site": "same-site"}},
        ),
        "rebound name": (
            421,
            {
                "content": body,
                "headers": {
                    "Content-Type": JSON,
                    "Host": f"evil.example:{port}",
                    "Origin": f"http://evil.example:{port}",
                },
            },
        ),
        "put": (405, {"method": "PUT", "content": body, "headers": {"Content-Type": JSON}}),
        "preflight": (405, {"method": "OPTIONS", "headers": evil}),
        "asset report": (
            405,
            {"path": "/report_asset_materialization/facts", "headers": {"Content-Type": JSON}},
        ),
    }


@pytest.mark.parametrize("case", list(cross_site("http://h:1", "")))
def test_cross_site_request_changes_nothing(page: Page, case: str) -> None:
    run_id = page.new_run()
    status, request = cross_site(page.url, terminate(run_id))[case]
    # With the login: a browser adds it to whatever any page sends.
    answer = page.ask(**request, auth=LOGIN)  # type: ignore[arg-type]
    assert (answer.status_code, page.status(run_id)) == (status, dg.DagsterRunStatus.STARTED)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "login",
    [None, ("operator", ""), ("operator", PASSWORD[:-1]), ("admin", PASSWORD)],
    ids=["none", "empty", "wrong", "other user"],
)
def test_request_without_the_password_returns_401(
    page: Page, login: tuple[str, str] | None
) -> None:
    for method, path in (("GET", "/"), ("GET", "/runs"), ("POST", "/graphql")):
        answer = page.ask(method, path, auth=login)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("origin", [EVIL, "null", None])
def test_websocket_of_another_page_is_refused(page: Page, origin: str | None) -> None:
    assert websocket_status(page, origin, LOGIN) == 403


def test_websocket_without_login_is_refused(page: Page) -> None:
    assert websocket_status(page, page.url, None) == 403


def test_websocket_of_the_page_itself_is_accepted(page: Page) -> None:
    assert websocket_status(page, page.url, LOGIN) == 101


def websocket_status(page: Page, origin: str | None, login: tuple[str, str] | None) -> int:
    """Status of the handshake; 101 once the server has greeted."""
    user = "" if login is None else f"{login[0]}:{login[1].replace(' ', '%20')}@"
    url = page.url.replace("http://", f"ws://{user}") + "/graphql"
    headers = {} if origin is None else {"Origin": origin}
    try:
        with connect(
            url, additional_headers=headers, subprotocols=[PROTOCOL], proxy=None
        ) as socket:
            socket.send(json.dumps({"type": "connection_init"}))
            assert json.loads(socket.recv())["type"] == "connection_ack"
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_page_without_a_password_is_read_only(read_only: Page) -> None:
    run_id = read_only.new_run()
    assert read_only.ask("GET", "/runs").status_code == 200
    response = read_only.ask(
        json={"query": f'{{ runOrError(runId: "{run_id}") {{ __typename }} }}'}
    )
    assert response.json()["data"]["runOrError"]["__typename"] == "Run"
    answer = read_only.ask(json={"query": terminate(run_id)})
    assert answer.json()["data"]["terminateRun"]["__typename"] != "TerminateRunSuccess"
    assert read_only.status(run_id) == dg.DagsterRunStatus.STARTED


@pytest.mark.parametrize(("origin", "status"), [(PUBLIC, 200), (EVIL, 403)])
def test_public_name_of_the_page_is_served(page: Page, origin: str, status: int) -> None:
    headers = {"Host": PUBLIC.removeprefix("https://"), "Origin": origin}
    answer = page.ask(json={"query": "{ version }"}, auth=LOGIN, headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("host", "environment", "sentence"),
    [
        ("127.0.0.1", {"ISTHMUS_PAGE_PASSWORD": "short"}, "must have 16 characters or more"),
        ("0.0.0.0", {}, "ISTHMUS_PAGE_PASSWORD_FILE is not set"),
        ("localhost", {"ISTHMUS_PAGE_URL": "dagster.example.com"}, "it must be like https"),
    ],
    ids=["short password", "open to the network", "no url"],
)
def test_wrong_page_setting_is_refused(
    host: str, environment: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        load_page_settings(host, 3000, in_files(tmp_path, environment))
