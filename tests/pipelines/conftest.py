"""Dagster in tests: its own pydantic deprecations quietened, an ephemeral instance, the devnet."""

from collections.abc import Iterator

import dagster as dg
import pytest

from indexer.settings import Settings, load_settings


def pytest_configure(config: pytest.Config) -> None:
    # Dagster 1.13 still reads `__fields__` of its own models while definitions are made.
    config.addinivalue_line(
        "filterwarnings", "ignore:The `__fields__` attribute is deprecated:DeprecationWarning"
    )


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Dagster's records, in memory."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def settings() -> Settings:
    """The devnet's, of no environment."""
    return load_settings({"ISTHMUS_NETWORK": "devnet"})
