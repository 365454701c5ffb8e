"""schemathesis runs all its default checks over every operation, bounded and deterministic.

`make fuzz` goes on for longer.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from sqlalchemy import Connection, Engine, create_engine

from tests.documented import operations
from tests.factories.app import make_app
from tests.factories.projections import insert_cursor, insert_offer, insert_order, insert_provider
from tests.factories.sep10 import FixedAccounts, make_rules, make_sign_in_app
from tests.system.fuzz.document import of_wsgi

GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
CASES = sorted(
    (operation.name, mode.value)
    for operation in operations(make_app(create_engine("postgresql+psycopg://not-used"))).values()
    # A header may be any text: without a query, a path or a body nothing can be wrong.
    for mode in (
        (GOOD, BAD)
        if operation.body or any(p.place != "header" for p in operation.parameters)
        else (GOOD,)
    )
)


@pytest.fixture
def whole_api(book: Connection, reader: Engine) -> Any:
    insert_provider(book)
    insert_offer(book)
    insert_order(book)
    insert_cursor(book)
    return of_wsgi(make_sign_in_app(reader, FixedAccounts(make_rules())))


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_operation_conforms_to_document(whole_api: Any, name: str, mode: str) -> None:
    operation = whole_api.find_operation_by_id(name)

    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    @settings(
        max_examples=12,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def holds(case: Any) -> None:
        # Packed, it would be no JSON to schemathesis.
        case.call_and_validate(headers={"Accept-Encoding": "identity"})

    holds()
