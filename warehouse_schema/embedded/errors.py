"""What can go wrong, each with a message that says what to do.

EmbeddedPostgresError
├── BinariesNotFound    no Postgres programs on this machine that we can use
├── FolderNotUsable     the data folder, or the way to it, is not fit for the server
├── PortTaken           another program has the requested port
├── StartFailed         Postgres gave up, or took too long
├── StopFailed          Postgres is still there after a fast shutdown
└── NotRunning          no server answers
"""


class EmbeddedPostgresError(RuntimeError):
    """Root of the tree in the module's docstring."""


class BinariesNotFound(EmbeddedPostgresError):
    """No Postgres programs on this machine that we can use."""


class FolderNotUsable(EmbeddedPostgresError):
    """The data folder, or the way to it, is not fit for the server."""


class PortTaken(EmbeddedPostgresError):
    """Another program has the requested port."""


class StartFailed(EmbeddedPostgresError):
    """Postgres gave up, or took too long."""


class StopFailed(EmbeddedPostgresError):
    """Postgres is still there after a fast shutdown."""


class NotRunning(EmbeddedPostgresError):
    """No server answers."""
