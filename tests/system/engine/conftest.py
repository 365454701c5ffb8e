"""One site for all tests of the folder: servers, a chain, and what one process makes of it."""

import os
from collections.abc import Iterator

import pytest

from tests.system.chaos.contents import Contents, read_contents
from tests.system.engine.lab import NotInstalled
from tests.system.engine.site import Site, backfill_config, open_site

BLOCKS = int(os.environ.get("ISTHMUS_ENGINE_BLOCKS", "6000"))
"""A multiple of 20."""
SPAN = BLOCKS // 20
RUN_SECONDS = max(900.0, BLOCKS / 20)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Servers and a chain; fails where a program is missing."""
    try:
        opened = open_site(BLOCKS)
        started = opened.__enter__()
    except NotInstalled as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield started
    finally:
        opened.__exit__(None, None, None)


@pytest.fixture(scope="module")
def expected(site: Site) -> Contents:
    """What a backfill in one process leaves in the warehouse `alone`."""
    site.create_warehouse("alone")
    config = backfill_config(BLOCKS, SPAN)
    run = site.start_run("alone", "backfill", config, executor="in_process")
    site.await_run(run, "alone", RUN_SECONDS)
    return read_contents(site.postgres.socket_url("alone"))


@pytest.fixture(autouse=True)
def _no_workers_left(site: Site) -> Iterator[None]:
    yield
    site.stop_workers()
