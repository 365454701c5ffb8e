"""The API as a test sees it: an app on a given engine, with a clock that stands.

Every answer that its client gets is held against the OpenAPI document (`tests.documented`).
"""

from typing import Any

from flask import Flask
from sqlalchemy import Engine

from api.app import create_app
from api.deps import Deps
from indexer.config.networks import Network, load_network
from tests.documented import CheckedClient
from tests.factories.projections import CLOSE_TIME
from warehouse_schema.identifiers import UnixSeconds

NOW = CLOSE_TIME + 4


def make_app(
    engine: Engine,
    *,
    network: Network | None = None,
    now: int = NOW,
    **others: Any,
) -> Flask:
    """An app on the testnet network whose clock says `now`; `others` are of `Deps`."""
    network = network or load_network("testnet")
    app = create_app(Deps(engine, network, lambda: UnixSeconds(now), **others))
    app.test_client_class = CheckedClient
    return app
