"""Queries, results and pictures in docs/analytics.md are those of the 90 days of history.

`--update-golden` rewrites the results and pictures; read the diff.
"""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL

from indexer.analytics.export import SETS, due_days, export, write_database
from indexer.analytics.export.tables import FACTS, FIGURES
from tests.factories.charts import draw
from tests.factories.demo_history import fill_with_history
from warehouse_schema.engine import make_engine
from warehouse_schema.views import NAMES

DOCUMENT = Path(__file__).resolve().parents[1] / "docs/analytics.md"
EXAMPLE = re.compile(
    r"```(sql|python)\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?P<result>(?:(?!```).)*)```\n",
    re.DOTALL,
)
PICTURE = re.compile(
    r"```sql\n(?P<code>(?:(?!```).)*)```\n\n!\[[^\]]+\]\((?P<file>[\w/-]+\.svg)\)\n", re.DOTALL
)


@pytest.fixture(scope="module")
def seeded(clone: Callable[[], URL]) -> Iterator[Engine]:
    """The warehouse of the document, as the indexer's."""
    url = clone()
    fill_with_history(url)
    engine = make_engine(url, role="indexer")
    yield engine
    engine.dispose()


@pytest.fixture
def analyst(seeded: Engine) -> Iterator[Connection]:
    engine = make_engine(seeded.url, role="analyst", pool_size=1)
    with engine.connect() as connection:
        connection.execute(text("SET search_path = analytics, projections, facts"))
        yield connection
    engine.dispose()


@pytest.fixture
def exported(seeded: Engine, tmp_path: Path) -> Path:
    """A folder that holds the days as a demo's files, and as `isthmus.duckdb`."""
    folder = tmp_path / ".isthmus/demo/export"
    for what in SETS:
        with seeded.connect() as conn:
            wanted = due_days(conn, what, folder)
        for _ in export(seeded, what, folder, wanted):
            pass
    write_database(folder, tmp_path / "isthmus.duckdb")
    return tmp_path


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """As psql prints it: numbers to the right, nothing for a null."""
    cells = [["" if value is None else shown(value) for value in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(names, *cells, strict=True)]
    right = [
        all(isinstance(row[n], int | Decimal | None) for row in rows) for n in range(len(names))
    ]
    lines = [" | ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))]
    lines.append("-+-".join("-" * width for width in widths))
    lines += [
        " | ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, right, strict=True)
        )
        for row in cells
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def shown(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def query_result(connection: Connection, query: str) -> str:
    return table(*rows_of(connection, query))


def rows_of(connection: Connection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows."""
    result = connection.execute(text(query.replace(":", r"\:")))
    return list(result.keys()), [tuple(row) for row in result]


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/analytics.md", "exec"), {})
    return out.getvalue()


@pytest.mark.timeout(600)  # Exports 3,150 files.
def test_examples_give_documented_results(
    analyst: Connection,
    exported: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(exported)
    document = DOCUMENT.read_text()

    def anew(example: re.Match[str]) -> str:
        code = example["code"]
        is_sql = example[0].startswith("```sql")
        result = query_result(analyst, code) if is_sql else printed(code)
        return example[0].replace(f"```text\n{example['result']}", f"```text\n{result}")

    given = EXAMPLE.sub(anew, document)
    if pytestconfig.getoption("--update-golden"):
        DOCUMENT.write_text(given)
    assert given == DOCUMENT.read_text()


def test_pictures_are_those_of_their_queries(
    analyst: Connection, pytestconfig: pytest.Config
) -> None:
    document = DOCUMENT.read_text()
    pictures = list(PICTURE.finditer(document))
    assert len(pictures) == document.count(".svg)")
    for picture in pictures:
        drawn = draw(*rows_of(analyst, picture["code"]))
        file = DOCUMENT.parent / picture["file"]
        if pytestconfig.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(drawn)
        assert file.read_bytes() == drawn, picture["file"]


def test_every_query_is_run() -> None:
    """As an example or for a picture; the one other SQL block creates a login."""
    document = DOCUMENT.read_text()
    run = len(EXAMPLE.findall(document)) + len(PICTURE.findall(document))
    assert document.count("```sql\n") + document.count("```python\n") == run + 1


def test_every_view_has_an_example() -> None:
    examples = " ".join(example["code"] for example in EXAMPLE.finditer(DOCUMENT.read_text()))
    assert [name for name in NAMES if not re.search(rf"\b{name}\b", examples)] == []


def test_exported_tables_are_documented() -> None:
    document = DOCUMENT.read_text()
    named = [each.name for each in (*FACTS.tables, *FIGURES.tables)]
    assert [name for name in named if f"`{name}`" not in document] == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, "a"), (20, None)], "n  | word\n---+-----\n 1 | a\n20 |\n"),
        ([(date(2026, 11, 21), datetime(2026, 11, 21, 8, tzinfo=UTC))], None),
    ],
)
def test_result_is_printed_like_psql(rows: list[Any], expected: str | None) -> None:
    given = table(["n", "word"], rows)
    assert expected is None or given == expected
    assert all(line == line.rstrip() for line in given.splitlines())
