"""Compiled queries, several in one round trip."""

import pytest
from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.exc import DBAPIError

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.facts.queries import fetch_all, joined, rows_of
from indexer.facts.store import events_by_column, events_of_transaction_groups
from tests.factories.stage_facts import DIRECT, burn, keep, mint, paid
from tests.factories.transfers import ETHEREUM, PUBNET
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId
from warehouse_schema.queries import any_in

_PAID = events_by_column(Erc20Transfer, "recipient")
_SENT = events_by_column(MessageSent, "burn_key")
_BLOCKS = rows_of(select(blocks.c.chain).where(blocks.c.chain == any_in("chains")))


def test_each_query_returns_its_own_results(connection: Connection):
    first, second = paid("0x01", "0x0a", 2**255, 7), paid("0x01", "0x0b", 5, 6, "c")
    sent, deposit = burn(DIRECT, 8)
    assert isinstance(sent, MessageSent)
    assert sent.burn_key is not None
    keep(connection, first, second, sent, deposit)
    found = fetch_all(
        connection,
        [
            (_PAID, {"values": joined(["0x0a", "0x0b"])}),
            (_SENT, {"values": joined([sent.burn_key])}),
            (_PAID, {"values": joined([])}),
            (_BLOCKS, {"chains": joined([ETHEREUM])}),
        ],
    )
    assert found == [[second, first], [sent], [], []]
    assert type(found[0][1].amount) is int


def test_no_query_takes_no_round_trip(connection: Connection):
    assert fetch_all(connection, []) == []


def test_events_of_several_groups_of_transactions(connection: Connection):
    burned, minted = burn(DIRECT, 8), mint(DIRECT, 9)
    keep(connection, *burned, *minted)
    groups = [
        ((MessageSent, DepositForBurn), [burned[0].seen]),
        ((MessageReceived,), [minted[0].seen]),
        ((MessageSent,), []),
    ]
    assert events_of_transaction_groups(connection, groups) == [burned, [minted[1]], []]


def test_error_is_sqlalchemys(connection: Connection):
    missing = rows_of(select(text("no_such_column")).select_from(blocks))
    with pytest.raises(DBAPIError, match="no_such_column"):
        fetch_all(connection, [(_BLOCKS, {"chains": joined([PUBNET])}), (missing, {})])


def test_query_reads_the_schema_of_the_connection(connection: Connection):
    connection.execute(text("CREATE SCHEMA elsewhere"))
    connection.execute(text("CREATE TABLE elsewhere.blocks (LIKE facts.blocks)"))
    query = rows_of(select(blocks.c.chain).where(blocks.c.chain == bindparam("chain")))
    calls = [(query, {"chain": ChainId("x")})]
    insert = text(
        "INSERT INTO elsewhere.blocks (chain, height, hash, parent_hash, time, events)"
        " VALUES ('x', 1, 'b', 'a', 0, 0)"
    )
    assert fetch_all(connection, calls) == [[]]
    connection.execute(insert)
    connection.execution_options(schema_translate_map={"facts": "elsewhere"})
    try:
        assert fetch_all(connection, calls) == [[("x",)]]
    finally:
        connection.execution_options(schema_translate_map=None)
    assert fetch_all(connection, calls) == [[]]
