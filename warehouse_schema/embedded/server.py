"""A running server as callers see it: the pieces of its URL."""

from dataclasses import dataclass, field
from urllib.parse import quote

HOST = "127.0.0.1"
SUPERUSER = "isthmus"
DEFAULT_DATABASE = "isthmus"
DEFAULT_SCHEME = "postgresql+psycopg"


@dataclass(frozen=True)
class Server:
    """A server that answers: the pieces of its URL, and whether this `start` brought it up."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    started_here: bool

    def url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL with the password; `scheme` is SQLAlchemy's ``dialect+driver``."""
        return (
            f"{scheme}://{quote(self.user, safe='')}:{quote(self.password, safe='')}"
            f"@{self.host}:{self.port}/{quote(database, safe='')}"
        )

    def public_url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL without the password, fit for a terminal or a log."""
        return f"{scheme}://{self.user}@{self.host}:{self.port}/{quote(database, safe='')}"
