"""Checks of Dagster's side of an installation, for `isthmus doctor`: its database and code servers.

Definitions are loaded by a process of their own, and only where no code server has loaded them.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from indexer.config.settings import SharedVariables, read_variables
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import ConfigurationError
from pipelines.environment import CodeLocation, code_locations, storage_url
from warehouse_schema.configuration import child_environment, load_configuration
from warehouse_schema.engine import hosts_of

REQUEST_SECONDS = 5.0
LOAD_SECONDS = 120.0
"""The imports take three seconds of a processor, which may be busy."""
_ROOT = Path(__file__).resolve().parents[1]
_STORAGE = "pipelines.storage"
_DRIVER = "postgresql+psycopg2://"
_LOAD = "import {module} as m; m.defs.get_repository_def().load_all_definitions()"

STORAGE_URL = Check(
    "dagster.url",
    "The address of Dagster's database is a Postgres URL; where DAGSTER_HOME names a dagster.yaml "
    f"of the operator's, it begins with {_DRIVER}, without which every event fails to insert.",
    f"Set ISTHMUS_DAGSTER_URL to {_DRIVER}USER:PASSWORD@HOST:PORT/DATABASE.",
)
DATABASE = Check(
    "dagster.database",
    "Dagster's database answers, and is not the warehouse's own. One that is not there yet can be "
    "created by its user.",
    "Start the server, correct ISTHMUS_DAGSTER_URL, or create the database for its user.",
)
TIME_ZONE = Check(
    "dagster.time_zone",
    "Sessions of Dagster's database are in UTC: it stores their local time as UTC.",
    "`ALTER DATABASE … SET timezone = 'UTC'`, then restart Dagster's processes.",
)
INSTANCE = Check(
    "dagster.instance",
    "The folder of DAGSTER_HOME has a dagster.yaml with our storage; unset: the one of this build.",
    "Unset DAGSTER_HOME, or copy pipelines/dagster.yaml into its folder.",
)
LOCATIONS = Check(
    "dagster.locations",
    "The definitions of each code server can be loaded under this configuration.",
    "Correct what the sentence names; `isthmus code-server` prints the whole error.",
)
SERVERS = Check(
    "dagster.servers",
    "A code server answers at each configured host and port.",
    "Start the process code-server, or relay-server, of systemd or `isthmus up` (commands: "
    "docs/operations/alerts.md); of neither, `isthmus code-server`, the relay's with `--relay`.",
)


def check_dagster(context: DoctorContext) -> Iterator[CheckResult]:
    """Check Dagster's database, its instance file, and every code server."""
    given = load_configuration()
    values = read_variables(SharedVariables, given)
    home = given.get("DAGSTER_HOME")
    try:
        url = storage_url(values)
    except (ConfigurationError, ValueError) as error:
        yield STORAGE_URL.failed("ISTHMUS_DAGSTER_URL", str(error))
    else:
        if home and not (values.dagster_url or "").startswith(_DRIVER):
            yield STORAGE_URL.failed("ISTHMUS_DAGSTER_URL", f"it does not begin with {_DRIVER}")
        else:
            yield STORAGE_URL.ok("ISTHMUS_DAGSTER_URL")
        context.begin(DATABASE.id, _subject(url))
        yield from _check_database(url)
    yield _check_instance(Path(home) if home else _ROOT / "pipelines")
    for location in code_locations():
        yield from _check_location(context, location)


def _subject(url: URL) -> str:
    return f"{','.join(hosts_of(url)) or 'local socket'}/{url.database}"


def _check_database(url: URL) -> Iterator[CheckResult]:
    subject = _subject(url)
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"connect_timeout": int(REQUEST_SECONDS)}
    )
    try:
        with engine.connect() as conn:
            zone = conn.scalar(text("SHOW timezone"))
            is_warehouse = conn.scalar(text("SELECT to_regclass('facts.cursors') IS NOT NULL"))
    except OperationalError as error:
        yield _missing(url, str(error.orig).strip().partition("\n")[0])
        return
    if is_warehouse:
        fix = "Name a database of its own: both have tables that the other's migrations may meet."
        yield DATABASE.failed(subject, "it is the warehouse's", fix)
    else:
        yield DATABASE.ok(subject)
    if zone not in ("UTC", "Etc/UTC", "GMT"):
        yield TIME_ZONE.failed(subject, f"sessions are in {zone}")
    else:
        yield TIME_ZONE.ok(subject, zone)


def _missing(url: URL, reason: str) -> CheckResult:
    """The result for a database that refuses the connection: perhaps it is not created yet."""
    engine = create_engine(
        url.set(database="postgres"),
        poolclass=NullPool,
        connect_args={"connect_timeout": int(REQUEST_SECONDS)},
    )
    query = text("""
        SELECT EXISTS (SELECT FROM pg_database WHERE datname = :name) AS is_there,
               rolcreatedb OR rolsuper AS may_create
          FROM pg_roles WHERE rolname = current_user
    """)
    try:
        with engine.connect() as conn:
            row = conn.execute(query, {"name": url.database}).one()
    except OperationalError:
        return DATABASE.failed(_subject(url), reason)
    if not row.is_there and row.may_create:
        return DATABASE.ok(_subject(url), "not there yet: the first process creates it")
    return DATABASE.failed(_subject(url), reason)


def _check_instance(folder: Path) -> CheckResult:
    path = folder / "dagster.yaml"
    try:
        named = path.read_text()
    except OSError as error:
        return INSTANCE.failed(str(path), error.strerror or str(error))
    if _STORAGE not in named:
        return INSTANCE.failed(str(path), f"its storage is not {_STORAGE}")
    return INSTANCE.ok(str(path))


def _check_location(context: DoctorContext, location: CodeLocation) -> Iterator[CheckResult]:
    subject = f"{location.name} {location.host}:{location.port}"
    try:
        socket.create_connection((location.host, location.port), timeout=REQUEST_SECONDS).close()
    except OSError as error:
        yield SERVERS.failed(subject, f"it does not answer: {error}")
    else:
        yield SERVERS.ok(subject)
        # A code server listens once it has loaded them.
        yield LOCATIONS.ok(location.module, "loaded by its code server")
        return
    context.begin(LOCATIONS.id, location.module)
    try:
        loaded = subprocess.run(
            [sys.executable, "-c", _LOAD.format(module=location.module)],
            check=False,
            cwd=_ROOT,
            env=child_environment({"DAGSTER_DISABLE_TELEMETRY": "1"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        yield LOCATIONS.failed(location.module, f"not loaded after {LOAD_SECONDS:.0f} s")
        return
    if loaded.returncode == 0:
        yield LOCATIONS.ok(location.module)
    else:
        lines = loaded.stderr.strip().splitlines() or [f"exit code {loaded.returncode}"]
        yield LOCATIONS.failed(location.module, lines[-1])


GROUP = CheckGroup((STORAGE_URL, DATABASE, TIME_ZONE, INSTANCE, LOCATIONS, SERVERS), check_dagster)
