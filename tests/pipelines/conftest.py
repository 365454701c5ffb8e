"""Dagster in tests: an ephemeral instance, the devnet."""

from collections.abc import Iterator

import dagster as dg
import pytest

from indexer.config.settings import Settings, load_settings


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Dagster's records, in memory."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def settings() -> Settings:
    """The devnet's, of no environment."""
    return load_settings({"ISTHMUS_NETWORK": "devnet"})
