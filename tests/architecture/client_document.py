"""Writes clients/python/openapi.json, the committed OpenAPI document: `make openapi`."""

import json

from sqlalchemy import create_engine

from api.openapi import openapi
from tests.architecture.imports import ROOT
from tests.factories.app import make_app

PATH = ROOT / "clients/python/openapi.json"


def document() -> str:
    """The text of the file."""
    app = make_app(create_engine("postgresql+psycopg://not-used"))
    return json.dumps(openapi(app), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(document())
