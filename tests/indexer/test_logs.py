"""JSON lines: members, context, and text of clients that tries to forge a line."""

import io
import json
import logging
from datetime import datetime
from pathlib import Path

import pytest

from indexer.config.settings import load_settings, log_format
from indexer.errors import ConfigurationError
from indexer.logs import (
    MEMBERS,
    JsonLines,
    add_log_context,
    log_context,
    replace_log_context,
)

ROOT = Path(__file__).resolve().parents[2]
TRANSFER = "ab" * 16


@pytest.fixture
def lines():
    """Write a line with `logging`, read it as JSON."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines("follow"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    replace_log_context()
    yield lambda: [json.loads(line) for line in written.getvalue().split("\n")[:-1]]
    replace_log_context()
    root.setLevel(level)
    root.removeHandler(handler)


def test_line_has_the_documented_members_in_order(lines):
    before = datetime.now().astimezone()
    with log_context(chain="eip155:1"), log_context(transfer=TRANSFER):
        logging.getLogger("indexer.x").warning("node chain=%s", "eip155:1", extra={"status": 3})
    logging.getLogger("indexer.y").info("later")
    first, second = lines()
    assert [*first] == [name for name in MEMBERS if name in first]
    written = datetime.fromisoformat(first.pop("time"))
    assert before <= written <= datetime.now().astimezone()
    assert written.utcoffset().total_seconds() == 0
    assert first == {
        "level": "warning",
        "logger": "indexer.x",
        "process": "follow",
        "message": "node chain=eip155:1",
        "chain": "eip155:1",
        "transfer": TRANSFER,
        "trace_id": TRANSFER,
        "status": 3,
    }
    assert {*second} == {"time", "level", "logger", "process", "message"}


def test_context_of_a_request_ends_with_the_next(lines):
    replace_log_context(request_id="request-1")
    add_log_context(transfer=TRANSFER)
    logging.getLogger("api").info("one")
    replace_log_context(request_id="request-2")
    logging.getLogger("api").info("two")
    one, two = lines()
    assert (one["request_id"], one["transfer"]) == ("request-1", TRANSFER)
    assert two["request_id"] == "request-2"
    assert "transfer" not in two


@pytest.mark.parametrize(
    "text",
    [
        'x\n{"time": "now", "message": "forged"}',
        '"}, "level": "critical", {"',
        "x\r\u2028\u2029\x85\x00\x1b[2K",
        "\ud800 alone",
    ],
    ids=["line break", "quotes", "separators and controls", "lone surrogate"],
)
def test_text_of_a_client_stays_one_member(text):
    # Formatted at once: pytest would pass a captured line with a lone surrogate on, and fail.
    record = logging.makeLogRecord({"msg": "path=%s", "args": (text,), "path": text})
    formatted = JsonLines("api").format(record)
    assert formatted.isascii()
    assert formatted.isprintable()
    line = json.loads(formatted)
    assert (line["message"], line["path"], line["process"]) == (f"path={text}", text, "api")


def test_exception_is_a_member(lines):
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")
    [line] = lines()
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: broken")


def test_wrong_format_is_named_with_other_wrong_settings():
    wrong = {"ISTHMUS_LOG_FORMAT": "xml", "ISTHMUS_START_EIP155_31337": "x"}
    assert log_format(wrong) == "text"
    with pytest.raises(ConfigurationError) as caught:
        load_settings(wrong)
    assert "ISTHMUS_LOG_FORMAT is 'xml'; it must be text or json" in str(caught.value)
    assert "ISTHMUS_START_EIP155_31337" in str(caught.value)


def test_document_lists_the_members():
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in MEMBERS.items())
    page = (ROOT / "docs" / "operations" / "logs-and-traces.md").read_text()
    assert f"| member | value |\n|---|---|\n{rows}\n" in page
