"""Transfers of every kind on running chains, with the processes of the service.

Followers, pollers, keeper and relay are threads here; the API is a process.
"""

import random
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from devnet import circle, services
from devnet.customer_story import CustomerStory
from devnet.keys import RELAY, SPONSOR, make_keys, make_relay_keys
from devnet.scenario import PacedClient, real_time
from devnet.stellar.accounts import keypair
from devnet.supervisor import Supervisor, free_port
from devnet.webhook_receiver import make_certificate, receiving
from devnet.world import Pace, World, start_world
from indexer.analytics.reconciliation import Finding, reconcile
from indexer.chains.services.circle import Iris
from indexer.config.settings import Settings, load_settings
from indexer.ingest.attestations import poll_attestations
from indexer.ingest.follow import follow
from indexer.ingest.readers import open_reader
from indexer.tracing import start_tracing, stop_tracing
from indexer.transfers.keeper import run_keeper
from relay.run import run_relay
from relay.settings import load_accounts, load_webhook_poster
from relay.webhooks.run import send_webhooks
from tests.factories.otlp import CollectedSpan, collecting
from warehouse_schema.engine import make_engine


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="isthmus-transfers-") as name:
        yield Path(name)


@contextmanager
def working(
    settings: Settings, database: URL, relay_keys: dict[str, str], certificate: Path
) -> Iterator[None]:
    """All that moves transfers, until the block ends. What one of them raises is raised."""
    stop = threading.Event()
    with ExitStack() as doors, ThreadPoolExecutor(6) as pool:
        indexer = make_engine(database, role="indexer", pool_size=10)
        relay = make_engine(database, role="relay")
        doors.callback(indexer.dispose)
        doors.callback(relay.dispose)
        iris = doors.enter_context(closing(Iris(str(settings.network.iris))))
        readers = [open_reader(settings, chain) for chain in settings.network.chains]
        for reader in readers:
            doors.enter_context(closing(reader))
        over, ignore = stop.is_set, _ignore
        jobs: list[Callable[[], None]] = [
            *(
                lambda reader=reader: follow(
                    indexer, reader, settings.network, should_stop=over, on_progress=ignore
                )
                for reader in readers
            ),
            lambda: poll_attestations(
                indexer, settings.network, iris, should_stop=over, on_progress=ignore
            ),
            lambda: run_keeper(indexer, settings.network, should_stop=over),
            lambda: run_relay(
                relay,
                settings,
                load_accounts(settings.network, relay_keys),
                should_stop=over,
                on_turn=lambda _chain, _turn: None,
            ),
        ]
        sender = load_webhook_poster(settings.network, relay_keys)
        assert sender is not None
        trusting = replace(sender, context=ssl.create_default_context(cafile=str(certificate)))
        jobs.append(lambda: send_webhooks(relay, trusting, should_stop=over))
        running = [pool.submit(job) for job in jobs]
        try:
            yield
        finally:
            stop.set()
        for each in running:
            each.result()


def _ignore(_: object) -> None:
    """What was done is seen in the transfers."""


def started(doors: ExitStack, supervisor: Supervisor, database: URL) -> tuple[World, Settings]:
    pace = Pace(ledger_seconds=None, ledger_clock="fixed")
    world = doors.enter_context(start_world(supervisor, evm_port=0, stellar_port=0, pace=pace))
    attestations = doors.enter_context(circle.reading(world.evm_url, world.stellar_url))
    iris = doors.enter_context(circle.serving(0, attestations))
    url = database.render_as_string(hide_password=False)
    settings = services.with_world(load_settings({}), world, iris)
    return world, replace(settings, home=supervisor.folder, database_url=url)


def findings(database: URL, settings: Settings) -> tuple[Finding, ...]:
    """What does not add up: no deposit address that is done with holds anything."""
    indexer = make_engine(database, role="indexer")
    try:
        return reconcile(indexer, settings.network).findings
    finally:
        indexer.dispose()


def trace_problems(spans: Sequence[CollectedSpan]) -> list[str]:
    """What is wrong with the trace of the one transfer that is followed by a webhook too."""
    [trace] = {span.trace_id for span in spans if span.name == "webhook post"}
    mine = sorted((each for each in spans if each.trace_id == trace), key=lambda each: each.began)
    root, *children = mine

    def first(name: str, **attributes: str) -> CollectedSpan:
        wanted = {f"isthmus.{key}": value for key, value in attributes.items()}
        return next(
            each for each in mine if each.name == name and wanted.items() <= each.attributes.items()
        )

    steps = [
        first("POST /v1/transfers"),
        first("follower range", chain="eip155:31337"),
        first("attester answer", service="iris", stage="DELIVERING"),
        first("relay attempt", chain="stellar:devnet", purpose="deliver"),
        first("follower range", chain="stellar:devnet", stage="COMPLETED"),
        first("webhook post", stage="COMPLETED"),
    ]
    problems = []
    if steps[0] is not root or root.parent_id or root.service != "isthmus api":
        problems.append(f"the first span is {root}")
    problems += [
        f"{each} has another parent" for each in children if each.parent_id != root.span_id
    ]
    # The customer pays as soon as the answer is there: the keeper may hear of the transfer later.
    for order in (steps, [root, first("keeper notification")]):
        if [each.began for each in order] != sorted(each.began for each in order):
            problems.append(f"order: {[(each.name, each.began) for each in order]}")
    if first("relay job").attributes["isthmus.outcome"] != "confirmed":
        problems.append(f"{first('relay job')}")
    if first("webhook post").attributes["http.response.status_code"] != 204:
        problems.append(f"{first('webhook post')}")
    return problems


@pytest.mark.timeout(900)
def test_every_kind_of_transfer_ends_with_balanced_amounts(
    folder: Path, database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_lines: list[str] = []
    with ExitStack() as doors:
        collector = doors.enter_context(collecting())
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        # Beyond the test: what a process sends, it sends at its end.
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        start_tracing("loops")
        doors.callback(stop_tracing)
        supervisor = doors.enter_context(Supervisor(folder, log_lines.append))
        world, settings = started(doors, supervisor, database)
        client = doors.enter_context(closing(PacedClient(world.stellar_url, real_time)))
        client.close_ledger(close_time_ms=int(time.time() - 60) * 1000)
        for name in (RELAY, SPONSOR):
            client.fund(keypair(name).public_key)
        ports = services.Ports(api=free_port(0), page=0, code=0)
        api = services.environment(settings) | make_keys(folder / "keys", ports.api_url)
        api["DATABASE_URL"] = str(settings.database_url)
        relay_keys = make_relay_keys(folder / "keys", settings.network)
        certificate = make_certificate(folder)
        receiver = doors.enter_context(receiving(certificate))
        with working(settings, database, relay_keys, certificate):
            # The API sends its spans when it stops.
            supervisor.run(replace(services.api(ports, api, workers=1), stop_timeout=60.0))
            places = (ports.api_url, supervisor.wait, receiver)
            story = CustomerStory(world, client, random.Random(7), *places)
            assert story.play(log_lines.append) == [], "\n".join(log_lines)
            assert findings(database, settings) == ()
    # The API's process has ended, and with it its last batch is sent.
    assert trace_problems(collector.spans) == []
