"""The whole system on local chains (`isthmus demo`): plays, verifies, then runs on or stops."""

import json
import logging
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy.exc import OperationalError

from devnet import circle, services
from devnet.customer_story import HOOKED, CustomerStory
from devnet.customers import customer
from devnet.databases import fresh_databases
from devnet.day_check import day_problems
from devnet.evm_node import DevnetError
from devnet.history.origin import top_blocks
from devnet.history.write import write_history
from devnet.identity.check import sign_in_problems
from devnet.identity.provider import StandIn, wallet
from devnet.identity.server import serving
from devnet.keys import RELAY, SPONSOR, in_files, make_keys, make_relay_keys
from devnet.life import Life
from devnet.local_http import TIMEOUTS, local_client
from devnet.scenario import STORY_SECONDS, Log, Scenario
from devnet.stellar.accounts import keypair
from devnet.supervisor import PostgresService, Stopped, Supervisor, free_port
from devnet.verify import NotCaughtUp, Service, Story, verify
from devnet.webhook_receiver import Receiver, make_certificate, receiving
from devnet.world import Origin, Pace, World, start_world
from indexer.analytics.reconciliation import reconcile
from indexer.chains.raw import Block
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres, open_engine
from indexer.errors import IndexerError
from isthmus_client import ClientError, Isthmus
from warehouse_schema.configuration import child_environment
from warehouse_schema.embedded import EmbeddedPostgresError
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import ChainId
from warehouse_schema.migrate import MigrationRefused

BLOCK_SECONDS = 1.0
ORIGIN_HEIGHT = 1_000_000
"""Both chains begin there: their generated history lies below."""

_STATUS_READS = 10
"""Until the status shows a reconciliation that has ended."""
_LINES_OF_ERROR = 30
"""Enough for the message and the innermost calls of an error of Dagster."""


def run(outer: Settings, *, once: bool, seed: int, keep: bool) -> int:
    """Run a demo: 0 when all was as it must be, 1 when not, with the reason."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    settings = services.demo_settings(outer)
    logs = settings.home / "logs"
    try:
        with Supervisor(settings.home, log) as supervisor:
            problems = _play(supervisor, settings, once=once, seed=seed, keep=keep)
            stopping = time.monotonic()
        log(f"stopped everything in {time.monotonic() - stopping:.1f} s")
    except Stopped as stopped:
        log(f"{stopped}, before the demo had come to its end")
        return 1
    except (DevnetError, IndexerError, EmbeddedPostgresError, MigrationRefused) as error:
        problems = [f"{type(error).__name__}: {error}"]
    except OperationalError as error:
        problems = [f"the database does not answer: {error.orig}"]
    if problems:
        log(failure(problems, logs))
    return 1 if problems else 0


def log(line: str) -> None:
    """Print a line, unbuffered, also into a pipe."""
    print(line, flush=True)


@dataclass
class Stages:
    """Duration of each stage of the set-up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Print its begin, and measure it."""
        log(f"-- {name}")
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began

    def __str__(self) -> str:
        parts = [f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items()]
        return f"{', '.join(parts)}; {sum(self.seconds.values()):.1f} s in all"


def _play(
    supervisor: Supervisor, settings: Settings, *, once: bool, seed: int, keep: bool
) -> list[str]:
    """Play; returns problems, a sentence each. Without any, goes on until a signal comes."""
    for log_file in (settings.home / "logs").glob("*.log"):
        log_file.unlink()
    stages = Stages()
    with stages.timed("postgres"):
        _start_postgres(supervisor, settings, keep=keep)
    with stages.timed("databases"):
        dropped = fresh_databases(settings)
    log(f"this demo begins from nothing; dropped: {', '.join(dropped) or 'nothing was there'}")
    with stages.timed("chains"):
        pace = Pace(block_seconds=BLOCK_SECONDS, ledger_seconds=None, ledger_clock="fixed")
        # Before the scenario, whose first ledgers close in the past.
        origin = Origin(ORIGIN_HEIGHT, int(time.time()) - STORY_SECONDS - 60)
        world = start_world(supervisor, pace=pace, origin=origin)
    identity = StandIn()
    certificate = make_certificate(settings.home / "keys")
    with (
        world,
        serving(identity, free_port(services.IDENTITY_PORT)) as identity_url,
        circle.reading(world.evm_url, world.stellar_url) as attestations,
        circle.serving(free_port(services.CIRCLE_PORT), attestations) as circle_url,
        receiving(certificate) as receiver,
    ):
        ports = services.choose_ports()
        settings = services.with_world(settings, world, circle_url)
        with stages.timed("history"):
            tops = top_blocks(settings.network, world)
            _write_history(settings, tops, seed)
        variables = services.environment(settings, ports)
        page_password = secrets.token_urlsafe(16)
        with stages.timed("dagster"):
            for name in (RELAY, SPONSOR):
                world.stellar.fund(keypair(name).public_key)
            relay_keys = make_relay_keys(settings.home / "keys", settings.network)
            # The webhook sender trusts the receiver of this demo.
            relay_keys["SSL_CERT_FILE"] = str(certificate)
            supervisor.run_together(
                services.code_server(ports, variables),
                services.relay_server(ports, {**variables, **relay_keys}),
            )
            page = variables | in_files(
                settings.home / "keys", {services.PAGE_PASSWORD: page_password}
            )
            supervisor.run_together(
                services.webserver(ports, page), services.daemon(ports, variables, page_password)
            )
        with stages.timed("api"):
            keys = make_keys(settings.home / "keys", ports.api_url)
            users = in_files(settings.home / "keys", identity.variables(identity_url))
            supervisor.run(services.api(ports, {**variables, **keys, **users}, workers=1))
        everything = {**variables, **relay_keys, **keys, **users}
        environment_file = _write_environment(settings.home / "environment", everything)
        with stages.timed("scenario"):
            scenario = Scenario(world, seed, _watched(supervisor))
            story = scenario.play()
        with stages.timed("verification"):
            problems = _verify(supervisor, settings, ports, scenario, story, tops)
            problems += _verify_sign_in(ports, identity, story)
        if not problems:
            with stages.timed("transfers"):
                problems = _serve_customers(supervisor, world, scenario, ports, receiver)
                problems += _what_does_not_add_up(supervisor, settings, ports)
        if not problems:
            with stages.timed("days"):
                problems = _late_days(supervisor, settings)
        if not problems:
            with stages.timed("doctor"):
                # The last ledger is as old as the last transfer; the doctor reports an old ledger.
                scenario.close_ledger()
                problems = _doctor_findings(everything)
        log(f"\nset-up: {stages}")
        if not problems:
            _print_result()
        if not problems and not once:
            _print_addresses(settings, world, ports, story, page_password)
            _print_owner(ports)
            _print_identity(identity, identity_url, ports, story)
            log(f"""\
The command `isthmus` and the configuration of all processes, in a shell:

. {environment_file}
isthmus doctor
""")
            with _reports_stop():
                Life(scenario, supervisor).go_on()
    return problems


@contextmanager
def _reports_stop() -> Iterator[None]:
    """Prints a stop by signal, which is no failure: the demo's result stays."""
    try:
        yield
    except Stopped as stopped:
        log(str(stopped))


def _start_postgres(supervisor: Supervisor, settings: Settings, *, keep: bool) -> None:
    if settings.database_url is not None:
        log("DATABASE_URL is set: the embedded Postgres is not used")
        return
    postgres = PostgresService(embedded_postgres(settings))
    supervisor.start(postgres)
    if keep:
        supervisor.leave_running(postgres)


def _write_history(settings: Settings, tops: Mapping[ChainId, Block], seed: int) -> None:
    """Days of an earlier demo's history go; Dagster computes and exports the new ones."""
    shutil.rmtree(settings.export_folder, ignore_errors=True)
    owner, indexer = make_engine(database_url(settings)), open_engine(settings, "indexer")
    try:
        report = write_history(owner, indexer, settings.network, tops, seed=seed)
    finally:
        owner.dispose()
        indexer.dispose()
    log(
        f"   {report.first} to {report.last}: {report.events} events, {report.quotes} quotes,"
        f" {report.transfers} transfers"
    )


def _watched(supervisor: Supervisor) -> Log:
    """Prints a step, and checks the processes between two steps."""

    def step(line: str) -> None:
        log(f"   {line}")
        supervisor.check()

    return step


def _verify(
    supervisor: Supervisor,
    settings: Settings,
    ports: services.Ports,
    scenario: Scenario,
    story: Story,
    tops: Mapping[ChainId, Block],
) -> list[str]:
    engine = open_engine(settings, "analyst")
    try:
        # A transport of its own: a proxy that the environment names is for the world outside.
        with Isthmus(ports.api_url, transport=httpx.HTTPTransport(), timeouts=TIMEOUTS) as api:
            began = min(top.time for top in tops.values())
            service = Service(api, engine, settings.network, began)
            return verify(
                story,
                service,
                log=log,
                check=supervisor.check,
                close_ledger=scenario.close_ledger,
            )
    except NotCaughtUp as error:
        return [str(error)]
    finally:
        engine.dispose()


def _verify_sign_in(ports: services.Ports, identity: StandIn, story: Story) -> list[str]:
    with local_client(ports.api_url, timeout=60.0) as api:
        return sign_in_problems(api, identity, next(iter(story.book.providers)))


def _serve_customers(
    supervisor: Supervisor,
    world: World,
    scenario: Scenario,
    ports: services.Ports,
    receiver: Receiver,
) -> list[str]:
    story = CustomerStory(
        world, scenario.client, scenario.chance, ports.api_url, supervisor.wait, receiver
    )
    scenario.let_others_pass()
    try:
        return story.play(log)
    except ClientError as error:
        return [f"a customer was refused: {type(error).__name__}: {error}"]


def _what_does_not_add_up(
    supervisor: Supervisor, settings: Settings, ports: services.Ports
) -> list[str]:
    """Findings of the reconciliation job, run now; and that `/v1/status` shows them."""
    engine = open_engine(settings, "indexer")
    try:
        seen = reconcile(engine, settings.network)
    finally:
        engine.dispose()
    problems = [f"{each.check}: {each.detail}" for each in seen.findings]
    with Isthmus(ports.api_url, transport=httpx.HTTPTransport(), timeouts=TIMEOUTS) as api:
        shown = api.status()
        for _ in range(_STATUS_READS):
            if shown.at is not None and shown.at >= seen.at:
                break
            # The API serves an answer for two seconds.
            supervisor.wait(1.0)
            shown = api.status()
    if shown.at is None or shown.at < seen.at or not shown.adds_up:
        problems.append(f"GET /v1/status shows {shown.as_json()}")
    return problems


def _late_days(supervisor: Supervisor, settings: Settings) -> list[str]:
    engine = open_engine(settings, "indexer")
    try:
        return day_problems(engine, settings.network, supervisor.wait)
    finally:
        engine.dispose()


def _doctor_findings(variables: Mapping[str, str]) -> list[str]:
    """Findings of `isthmus doctor` under the configuration of all processes."""
    done = subprocess.run(
        services.isthmus("doctor", "--json"),
        check=False,
        cwd=services.PROJECT,
        env=child_environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        return [f"isthmus doctor ended with {done.returncode}: {done.stderr.strip()}"]
    document = json.loads(done.stdout)
    log(f"   {document['checks']} checks, {document['findings']} findings")
    return [
        f"{each['check']} {each['subject']}: {each['problem']}"
        for each in document["results"]
        if each["status"] == "finding"
    ]


def _write_environment(path: Path, variables: Mapping[str, str]) -> Path:
    """A file for a shell: these variables, one with a password, and `isthmus` on the PATH."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    lines = [f"export {name}={shlex.quote(text)}\n" for name, text in variables.items()]
    commands = shlex.quote(str(Path(sys.executable).parent))
    path.write_text("".join([*lines, f'export PATH={commands}:"$PATH"\n']))
    return path


def _print_result() -> None:
    log("verified: everything the scenario did is visible, and nothing else")
    log("verified: every customer's transfer ended as it must, to the last unit on both chains")
    log("verified: what left one chain came to the other, and no deposit address holds anything")
    log("verified: every closed day is computed, and its figures are those of the views")


def _print_owner(ports: services.Ports) -> None:
    """A token for the account of the examples in the OpenAPI document."""
    with closing(customer(HOOKED, ports.api_url)) as owner:
        log(f"""\
Every call, ready to be sent: {ports.api_url}/docs; "Authorize" there with {HOOKED}'s token:

{owner.api.sign_in()}
""")


def failure(problems: Sequence[str], logs: Path) -> str:
    """The report of a demo that failed: its problems, and the first error of each log."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"\nTHE DEMO FAILED: {count}", *(f"  {problem}" for problem in problems)]
    lines.append(f"The logs are in {logs}.")
    for file in sorted(logs.glob("*.log")):
        lines += _first_error(file)
    lines.append("Run `make demo` again once the cause is mended: it begins from nothing.")
    return "\n".join(lines)


def _first_error(log_file: Path) -> list[str]:
    """How many errors a log has, and the first of them with the lines that follow it."""
    lines = log_file.read_text(errors="replace").splitlines()
    errors = [n for n, line in enumerate(lines) if "ERROR" in line or line.startswith("Traceback")]
    if not errors:
        return []
    shown = lines[errors[0] : errors[0] + _LINES_OF_ERROR]
    return [f"Errors in {log_file.name}: {len(errors)}, the first:", *(f"  {it}" for it in shown)]


def _print_addresses(
    settings: Settings, world: World, ports: services.Ports, story: Story, page_password: str
) -> None:
    warehouse = database_url(settings).render_as_string(hide_password=True)
    provider, order = next(iter(story.book.providers)), next(iter(story.book.orders))
    log(f"""
market page  {ports.api_url}/
transfers    {ports.api_url}/transfers (sign in with STELLAR_KEY of: .venv/bin/isthmus faucet --new)
status       {ports.api_url}/status
Dagster      {ports.page_url} (user {services.PAGE_USER}, password {page_password})
API          {ports.api_url}
EVM chain    {world.evm_url} and {world.evm_ws_url}
Stellar      {world.stellar_url} (a stand-in; friendbot at /friendbot?addr=G…)
warehouse    {warehouse}
logs         {settings.home / "logs"}

curl '{ports.api_url}/api/v1/orderbook?direction=onramp&currency=USD'
curl {ports.api_url}/api/v1/orderbook/summary
curl {ports.api_url}/api/v1/providers/{provider}
curl {ports.api_url}/api/v1/intents/{order}
curl {ports.api_url}/v1/routes
curl {ports.api_url}/readyz
curl {ports.api_url}/.well-known/stellar.toml
curl '{ports.api_url}/auth?account={provider}'
""")


def _print_identity(
    identity: StandIn, identity_url: str, ports: services.Ports, story: Story
) -> None:
    user = identity.add_user(wallet(next(iter(story.book.providers))))
    log(f"""\
A user of the identity provider (a stand-in, {identity_url}) whose wallet is the first provider's,
and how it goes wrong: down, refused, 429, 404, slow, nonsense.

curl -H 'Authorization: Bearer {identity.token(user)}' {ports.api_url}/v1/session
curl -d '{{"subject": "{user}"}}' {identity_url}/devnet/tokens
curl -d '{{"users": "down"}}' {identity_url}/devnet/faults

Ledgers keep closing and an order is opened now and then. Ctrl-C stops everything.
""")
