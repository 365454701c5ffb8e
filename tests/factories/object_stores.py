"""A folder behind HTTP, as a plain file server and as an S3-compatible store have it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering

BUCKET = "lake"


class ObjectServer:
    """`asked` holds methods and paths in order; `status` answers everything with an error."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self.requests: list[tuple[str, str]] = []
        self.status = 0

    @property
    def http(self) -> str:
        """The folder's URL on a plain file server."""
        return f"http://127.0.0.1:{self.port}/{BUCKET}"

    @property
    def s3(self) -> str:
        """The folder's URL as a bucket."""
        return (
            f"s3://{BUCKET}?anonymous=true&region=us-east-2&endpoint=http://127.0.0.1:{self.port}"
        )

    def listing(self, query: dict[str, list[str]]) -> bytes:
        """ListObjectsV2: keys in order, a page at a time."""
        most = int(query.get("max-keys", ["1000"])[0])
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        prefix = query.get("prefix", [""])[0]
        keys = sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        )
        keys = [key for key in keys if key > after and key.startswith(prefix)]
        page = keys[:most]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>1</Size><ETag>e</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if keys != page else ""
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(keys != page).lower()}</IsTruncated>{token}{contents}"
            "</ListBucketResult>"
        ).encode()


@contextmanager
def serving_objects(folder: Path) -> Iterator[ObjectServer]:
    """The folder behind a URL on this machine."""
    objects = ObjectServer(folder)

    class RequestHandler(Handler):
        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def _answer(self) -> None:
            target = urlsplit(self.path)
            objects.requests.append((self.command, self.path))
            key = unquote(target.path).removeprefix(f"/{BUCKET}").strip("/")
            if objects.status:
                self._send(objects.status, b"")
            elif "list-type=2" in target.query:
                self._send(200, objects.listing(parse_qs(target.query)))
            elif key and (folder / key).is_file():
                self._send(200, (folder / key).read_bytes())
            else:
                self._send(404, b"")

        def _send(self, status: int, body: bytes) -> None:
            headers = {"last-modified": "Thu, 01 Jan 2026 00:00:00 GMT", "etag": '"e"'}
            self.answer(status, body, headers)

    server = Server((HOST, 0), RequestHandler)
    objects.port = server.server_port
    with answering(server):
        yield objects
