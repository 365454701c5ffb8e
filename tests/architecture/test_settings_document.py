"""docs/settings.md and the list of known variables follow from the settings models."""

from tests.architecture.settings_document import files


def test_settings_document_is_current() -> None:
    stale = [path.name for path, text in files().items() if path.read_text() != text]
    assert not stale, "run `make settings`"
