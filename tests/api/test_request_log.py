"""The log has one line per request and no secrets."""

import logging
import re

import pytest


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="api.request_log")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "api.request_log"]


def test_request_is_logged_with_its_response_id(cut_off, lines):
    response = cut_off.get("/healthz")
    (line,) = lines()
    request_id = response.headers["X-Request-Id"]
    assert re.fullmatch(r"[0-9a-f]{32}", request_id)
    assert re.fullmatch(
        rf"request id={request_id} method=GET path='/healthz' status=200 ms=\d+\.\d", line
    )


def test_error_status_is_logged(cut_off, lines):
    cut_off.get("/nothing")
    cut_off.post("/v1/routes", data=b"x" * 70_000)
    assert [re.search(r"status=(\d+)", line)[1] for line in lines()] == ["404", "413"]


def test_proxy_request_id_is_kept(cut_off, lines):
    response = cut_off.get("/healthz", headers={"X-Request-Id": "edge-0001.a_b"})
    assert response.headers["X-Request-Id"] == "edge-0001.a_b"
    assert "id=edge-0001.a_b " in lines()[0]


@pytest.mark.parametrize("given", ["short", "x" * 65, "with space here", "id=1 status=200", ""])
def test_invalid_request_id_is_replaced(cut_off, lines, given):
    response = cut_off.get("/healthz", headers={"X-Request-Id": given})
    assert response.headers["X-Request-Id"] != given
    assert re.match(r"request id=[0-9a-f]{32} ", lines()[0])


def test_query_and_headers_stay_out_of_the_log(cut_off, lines):
    cut_off.get("/nothing?token=hunter2", headers={"Authorization": "Bearer hunter3"})
    assert "hunter" not in lines()[0]


def test_newline_in_path_is_escaped(cut_off, lines):
    cut_off.get("/nothing%0Arequest%20id=forged")
    assert lines()[0].count("\n") == 0


def test_lost_database_is_logged_without_statement(cut_off, caplog):
    cut_off.get("/api/v1/intents/" + "ab" * 32)
    (record,) = [r for r in caplog.records if r.name == "api.errors"]
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("database unavailable: ")
    assert "SELECT" not in record.getMessage()
