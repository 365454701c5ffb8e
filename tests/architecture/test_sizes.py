"""Length of the product's files."""

from tests.architecture.imports import modules
from tests.architecture.test_names import APART

MAX_LINES = 450
"""House style: about 120 in the median. A longer file holds more than one noun."""


def test_no_file_is_longer_than_450_lines() -> None:
    lengths = {
        name: len(path.read_text().splitlines())
        for name, path in modules()
        if not name.startswith((*APART, "warehouse_schema.migrations.versions"))
    }
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}
