"""The doctor finds nothing wrong with healthy surroundings."""

from tests.indexer.doctor.conftest import Surroundings


def test_healthy_surroundings_have_no_finding(around: Surroundings) -> None:
    assert around.findings(None, "nodes", "contracts", "services") == []
