"""Every module of the packages obeys `imports.py`, and planted violations are found."""

import pytest

from tests.architecture.imports import DOWNHILL, PACKAGES, ROOT, modules, violations

MODULES = list(modules())


def test_modules_obey_import_rules() -> None:
    found = [
        sentence
        for module, path in MODULES
        for sentence in violations(module, path.read_text(), is_package=path.name == "__init__.py")
    ]
    assert found == []


def test_every_package_is_walked() -> None:
    modules_of = {
        package: [name for name, _ in MODULES if name.split(".")[0] == package]
        for package in PACKAGES
    }
    assert [package for package, names in modules_of.items() if len(names) < 2] == []


def test_every_table_entry_exists() -> None:
    paths = {part: ROOT / part.replace(".", "/") for part in DOWNHILL}
    missing = [
        part
        for part, path in paths.items()
        if not (path.is_dir() or path.with_suffix(".py").is_file())
    ]
    assert missing == []


PLANTED = [
    (
        "warehouse_schema.facts",
        "import indexer.ingest.ranges",
        "warehouse_schema may not import it",
    ),
    ("warehouse_schema.facts", "import psycopg", "warehouse_schema may not import it"),
    ("indexer.ingest.ranges", "from dagster import asset", "indexer may not import it"),
    ("indexer.ingest.ranges", "def f():\n    import flask", "indexer may not import it"),
    ("indexer.ingest.ranges", "import api.app", "indexer may not import it"),
    ("pipelines.defs.facts", "import web3", "pipelines may not import it"),
    ("pipelines.defs.facts", "from sqlalchemy import select", "pipelines may not import it"),
    ("pipelines.defs.facts", "from api import app", "pipelines may not import it"),
    ("api.app", "import polars as pl", "api may not import it"),
    ("isthmus_client.http", "from api.errors import ApiError", "isthmus_client may not import"),
    ("isthmus_client.http", "import indexer.addresses", "isthmus_client may not import"),
    ("isthmus_client.http", "import flask", "isthmus_client may not import"),
    ("api.orderbook.views", "from isthmus_client import Isthmus", "api may not import it"),
    ("api.app", "import dagster", "api may not import it"),
    ("api.orderbook.views", "import stellar_sdk", "api may not import it"),
    (
        "indexer.bridges.cctp.events",
        "from indexer.decode import decode",
        "uphill of indexer.bridges.cctp",
    ),
    ("indexer.decode.evm", "from indexer.chains.ports import Block", "uphill of indexer.decode"),
    ("indexer.bridges.oft.events", "import indexer.bridges.cctp", "uphill of indexer.bridges.oft"),
    ("indexer.chains.evm.reader", "import indexer.decode", "uphill of indexer.chains"),
    ("relay.run", "from indexer.ingest import ranges", "uphill of relay"),
    ("indexer.decode.evm", "from ..facts import store", "uphill of indexer.decode"),
    ("indexer.facts.store", "from indexer import transfers", "uphill of indexer.facts"),
    ("indexer.orderbook.fold", "import indexer.chains.evm.reader", "uphill of indexer.orderbook"),
    ("indexer.orderbook.fold", "import indexer.ingest.ranges", "uphill of indexer.orderbook"),
    ("indexer.orderbook.fold", "import time", "no clock"),
    ("indexer.orderbook.fold", "from sqlalchemy import func\nfunc.now()", "no clock"),
    ("indexer.ingest.ranges", "from devnet import world", "only devnet may"),
    ("api.app", "from indexer.chains.evm.reader import EvmReader", "only indexer and relay"),
    ("indexer.ingest.ranges", "import os\nos.environ['A']", "only warehouse_schema.conf"),
    ("indexer.ingest.ranges", "import os as o\no.getenv('A')", "only nobody may"),
    ("indexer.ingest.ranges", "from os import environ", "only warehouse_schema.conf"),
    ("warehouse_schema.migrate", "import os\nos.environ.get('A')", "only warehouse_schema.conf"),
    ("pipelines.definitions", "import dagster as dg\ndg.EnvVar('A')", "defs.resources may"),
    ("api.orderbook.views", "from api.health.views import health", "features meet only in"),
]


def test_planted_violations_are_found() -> None:
    for module, source, reason in PLANTED:
        found = violations(module, source)
        assert any(reason in sentence for sentence in found), (module, source, found)
        assert all(sentence.startswith(f"{module}:") for sentence in found)


FINE = [
    ("warehouse_schema.embedded.launcher", "import psycopg"),
    ("warehouse_schema.configuration", "import os\nos.environ"),
    ("indexer.ingest.ranges", "import time\nfrom indexer.ingest.projections import apply"),
    ("indexer.facts.reorg", "from indexer.chains.ports import ChainReader"),
    ("indexer.decode.evm", "from . import columns"),
    ("indexer.orderbook.fold", "from indexer.orderbook import offers"),
    ("devnet.world", "from indexer.ingest.ranges import follow\nfrom devnet import evm"),
    (
        "pipelines.defs.resources",
        "import dagster as dg\nfrom indexer.ingest.readers import x\ndg.EnvVar",
    ),
    ("pipelines.defs.facts.chain", "from sqlalchemy import Engine"),
    ("api.auth.sep10", "from stellar_sdk.sep import stellar_web_authentication"),
    (
        "api.orderbook.views",
        "from api.auth.owner import public\nfrom api.orderbook import responses",
    ),
    ("api.app", "from api.orderbook.views import orderbook"),
]


def test_allowed_imports_pass() -> None:
    assert [found for module, source in FINE for found in violations(module, source)] == []


def test_package_missing_in_the_table_raises() -> None:
    with pytest.raises(KeyError, match=r"indexer\.new has no place in DOWNHILL"):
        violations("indexer.new", "import indexer.errors")
