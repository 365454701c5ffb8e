"""Errors of the embedded Postgres. Each message says what to do."""


class EmbeddedPostgresError(RuntimeError):
    """Base of the others."""


class BinariesNotFound(EmbeddedPostgresError):
    """No usable Postgres programs on this machine."""


class FolderNotUsable(EmbeddedPostgresError):
    """The data folder, or a folder on the way to it, cannot be used by the server."""


class PortTaken(EmbeddedPostgresError):
    """Another program has the requested port."""


class StartFailed(EmbeddedPostgresError):
    """Postgres gave up, or took too long."""


class StopFailed(EmbeddedPostgresError):
    """Postgres still runs after a fast shutdown."""


class NotRunning(EmbeddedPostgresError):
    """No server answers."""
