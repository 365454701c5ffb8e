"""The API as a test sees it: an app on a given engine, with a clock that stands."""

from pathlib import Path

from flask import Flask
from sqlalchemy import Engine

from api.app import create_app
from api.deps import Deps
from indexer.networks import Network, load_network
from indexer.settings import Settings
from tests.factories.projections import CLOSE_TIME
from warehouse_schema.identifiers import ChainId, UnixSeconds

NOW = CLOSE_TIME + 4


def make_app(
    engine: Engine,
    *,
    network: Network | None = None,
    followed: tuple[str, ...] = ("stellar:testnet",),
    now: int = NOW,
) -> Flask:
    """An app on the testnet network whose clock says `now`."""
    network = network or load_network("testnet")
    settings = Settings(
        network=network,
        home=Path("not-used"),
        database_url=None,
        nodes={ChainId(chain): ("http://127.0.0.1:9",) for chain in followed},
    )
    return create_app(settings, Deps(engine, network, lambda: UnixSeconds(now)))
