"""docs/doctor.md follows from the checks of `isthmus doctor`, and names every one once."""

import re
from collections import Counter

from indexer.doctor.run import COMPLETED, GROUPS, load_group
from tests.architecture.doctor_document import files
from tests.architecture.imports import modules

_DECLARED = re.compile(r'\bCheck\(\s*"([a-z_.]+)"')


def test_doctor_document_is_current() -> None:
    stale = [path.name for path, text in files().items() if path.read_text() != text]
    assert not stale, "run `make settings`"


def test_every_declared_check_is_in_one_group() -> None:
    """A check that a module declares and no group lists would be in no document."""
    listed = Counter(check.id for name in GROUPS for check in load_group(name).checks)
    assert [check for check, times in listed.items() if times > 1] == []
    declared = {check for _, path in modules() for check in _DECLARED.findall(path.read_text())}
    assert declared == {*listed, COMPLETED.id}
