"""Every event type has its table with the same fields, and every such table its type.

Every event of a bridge mechanism is in the registry of movements.
"""

import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from sqlalchemy import ARRAY, BigInteger, Boolean, Column, Integer, LargeBinary, Text

from indexer.chains.events import Event, Provenance
from indexer.chains.raw import Block, EvmLog, StellarEvent
from indexer.config.routes import Bridge
from indexer.facts.cursors import Cursor
from indexer.facts.rows import EVENT_TYPES
from indexer.movements.fold import BURN_EVENTS, MINT_EVENTS
from indexer.movements.mechanisms import KEY_FIELDS, MECHANISMS
from warehouse_schema import facts
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.identifiers import BaseUnits as BaseUnitsName

PROVENANCE = [field.name for field in fields(Provenance)]
OUTCOME = ["event", "undecodable"]


def own_fields(item_type: type[Any]) -> list[str]:
    return [field.name for field in fields(item_type) if field.name != "seen"]


def names(table: Any) -> list[str]:
    return [column.name for column in table.columns]


def test_event_types_tables_and_mechanisms_correspond() -> None:
    assert set(EVENT_TYPES) == set(EVENT_TABLES)
    assert set(MECHANISMS) == set(get_args(Bridge))
    folders = tuple(f"indexer.bridges.{bridge}." for bridge in MECHANISMS)
    of_bridges = {each for each in EVENT_TYPES.values() if each.__module__.startswith(folders)}
    assert of_bridges == {*KEY_FIELDS, *BURN_EVENTS, *MINT_EVENTS}


def test_event_tables_have_the_fields_of_their_type_in_order() -> None:
    columns = {name: names(EVENT_TABLES[name]) for name in EVENT_TYPES}
    expected = {name: [*PROVENANCE, *own_fields(kind)] for name, kind in EVENT_TYPES.items()}
    assert columns == expected


@pytest.mark.parametrize("raw_type", [EvmLog, StellarEvent])
def test_raw_table_has_fields_of_its_type_and_outcome(raw_type: type[Any]) -> None:
    table = {EvmLog: facts.evm_logs, StellarEvent: facts.stellar_events}[raw_type]
    assert names(table) == [*PROVENANCE, *own_fields(raw_type), *OUTCOME]


def test_blocks_and_cursors_have_fields_of_their_types() -> None:
    assert names(facts.blocks) == [*own_fields(Block), "events"]
    of_follower = ["held", "updated_at", "reported_at", "failure", "protocol_ahead"]
    assert names(facts.cursors) == [*own_fields(Cursor), *of_follower]


def test_column_types_hold_the_values_of_their_fields() -> None:
    for name, event_type in EVENT_TYPES.items():
        hints = get_type_hints(event_type)
        for field in own_fields(event_type):
            column = EVENT_TABLES[name].c[field]
            hint, is_optional = without_none(hints[field])
            assert column.nullable is is_optional, (name, field)
            assert isinstance(column.type, column_types(hint)), (name, field, column.type, hint)


def without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (types.UnionType, Union):
        (only,) = (argument for argument in get_args(hint) if argument is not type(None))
        return only, True
    return hint, False


def column_types(hint: Any) -> tuple[type, ...]:
    """Column types that hold every value of a field's type."""
    if hint is BaseUnitsName:
        return (BaseUnitsType,)
    if get_origin(hint) is Literal:
        return (Text,)
    if get_origin(hint) is tuple:
        return (ARRAY,)
    plain = getattr(hint, "__supertype__", hint)
    while hasattr(plain, "__supertype__"):
        plain = plain.__supertype__
    return {
        int: (Integer, BigInteger, BaseUnitsType),
        str: (Text,),
        bytes: (LargeBinary,),
        bool: (Boolean,),
    }[plain]


def test_events_are_frozen() -> None:
    for event_type in EVENT_TYPES.values():
        assert event_type.__dataclass_params__.frozen, event_type  # type: ignore[attr-defined]
        assert issubclass(event_type, Event)


def test_column_of_wrong_type_is_found() -> None:
    assert not isinstance(Column("amount", Text).type, column_types(BaseUnitsName))
