"""What can go wrong, each with a message that says what to do.

EmbeddedPostgresError
├── BinariesNotFound    no Postgres programs on this machine that we can use
├── FolderNotUsable     the data folder, or the way to it, is not fit for the server
├── PortTaken           the port that was asked for belongs to somebody else
├── StartFailed         Postgres gave up, or took too long
├── StopFailed          Postgres is still there after a fast shutdown
└── NotRunning          a URL was asked for and no server answers
"""


class EmbeddedPostgresError(RuntimeError):
    """Root of the tree in the module's docstring."""


class BinariesNotFound(EmbeddedPostgresError):
    """No Postgres programs on this machine that we can use."""


class FolderNotUsable(EmbeddedPostgresError):
    """The data folder, or the way to it, is not fit for the server."""


class PortTaken(EmbeddedPostgresError):
    """The port that was asked for belongs to somebody else."""


class StartFailed(EmbeddedPostgresError):
    """Postgres gave up, or took too long."""


class StopFailed(EmbeddedPostgresError):
    """Postgres is still there after a fast shutdown."""


class NotRunning(EmbeddedPostgresError):
    """A URL was asked for and no server answers."""
