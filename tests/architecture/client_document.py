"""Writes clients/python/openapi.json and the amounts of docs/api.md: `make openapi`."""

import json
import re
from typing import Any

from sqlalchemy import create_engine

from api.amounts import TWO_STYLES, amount_table
from api.openapi import openapi
from tests.architecture.imports import ROOT
from tests.factories.app import make_app

PATH = ROOT / "clients/python/openapi.json"
RULES = ROOT / "docs/api.md"
_AMOUNTS = re.compile(r"(?<=from api/amounts.py. -->\n).*(?=<!-- End of the table. -->)", re.DOTALL)


def document() -> str:
    """The text of clients/python/openapi.json."""
    return json.dumps(_openapi(), indent=2, ensure_ascii=False) + "\n"


def rules() -> str:
    """docs/api.md with the amounts of the document."""
    table = amount_table(_openapi())
    section = f"\n{TWO_STYLES}\n### The unit of each amount\n\n{table}\n"
    written, count = _AMOUNTS.subn(lambda _: section, RULES.read_text())
    if count != 1:
        raise ValueError(f"{RULES} has {count} places for the amounts")
    return written


def _openapi() -> dict[str, Any]:
    return openapi(make_app(create_engine("postgresql+psycopg://not-used")))


if __name__ == "__main__":
    PATH.write_text(document())
    RULES.write_text(rules())
