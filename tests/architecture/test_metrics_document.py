"""docs/metrics.md follows from the catalogue of metrics."""

from tests.architecture.metrics_document import PATH, document


def test_metrics_document_is_current() -> None:
    assert PATH.read_text() == document(), "run `make catalogue`"
