"""Words for queries."""

import pytest
from sqlalchemy import Connection, Text, column, select, values

from warehouse_schema.queries import any_of

WORDS = ["", "a", "b", "a\x1fb", "\x1f", "é", "{a,b}", 'a"b', "a\\b", "NULL"]


@pytest.mark.parametrize(
    "wanted",
    [[], [""], ["a"], ["", "a"], ["a", ""], ["a\x1fb"], ["\x1f"], ["a", "b"], WORDS, WORDS[1:3]],
)
def test_any_of_finds_exactly_the_words(connection: Connection, wanted: list[str]) -> None:
    table = values(column("word", Text), name="given").data([(word,) for word in WORDS])
    query = select(table.c.word).where(table.c.word == any_of(wanted))
    assert set(connection.scalars(query)) == set(wanted)
