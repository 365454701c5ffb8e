"""The Postgres that runs when no DATABASE_URL is set: our own launcher for ready-made binaries.

    with EmbeddedPostgres(Path("state/postgres")) as server:
        engine = create_engine(server.url("isthmus"))

The same from a shell: ``isthmus database start|stop|status|url|psql``.

Files next to the data folder ``NAME``: ``NAME.password`` (mode 0600), ``NAME.port`` (kept over
restarts), ``NAME.log`` and ``NAME.lock``. The server listens on 127.0.0.1 only, requires a
password, and has no Unix socket. It outlives the process that started it, which must stop it.

Postgres refuses to run as root. Started by root it runs as the owner of the data folder, or as
``nobody`` when the folder is new; nothing but that folder changes owner and no mode of a folder
that was there before is touched.

    launcher     start, attach, stop
    programs     finding ready-made binaries, running one of them
    accounts     system user of the server when root starts it
    places       files next to the data folder; private files
    cluster      initdb, and checks of an existing cluster
    postmaster   whether the server of a folder runs, and what a dead one left
    server       a running server: its URL, its port
    errors       the errors, each with a remedy
"""

from warehouse_schema.embedded.errors import BinariesNotFound as BinariesNotFound
from warehouse_schema.embedded.errors import EmbeddedPostgresError as EmbeddedPostgresError
from warehouse_schema.embedded.errors import FolderNotUsable as FolderNotUsable
from warehouse_schema.embedded.errors import NotRunning as NotRunning
from warehouse_schema.embedded.errors import PortTaken as PortTaken
from warehouse_schema.embedded.errors import StartFailed as StartFailed
from warehouse_schema.embedded.launcher import EmbeddedPostgres as EmbeddedPostgres
from warehouse_schema.embedded.programs import find_binaries as find_binaries
from warehouse_schema.embedded.server import HOST as HOST
from warehouse_schema.embedded.server import Server as Server
