"""Objects of a data lake: storage and names (SEP-54).

A lake is a folder (`/data/lake` or `file:///data/lake`), an HTTP folder (`https://host/path`), or a
bucket of an S3-compatible store or Google's (`s3://bucket/path`, `gs://bucket/path`). Options of
the store are query parameters:

    s3://aws-public-blockchain/v1.1/stellar/ledgers/pubnet?region=us-east-2&anonymous=true
    s3://lake/pubnet?endpoint=http://127.0.0.1:9000

Credentials come from the environment, as the store's library reads it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import GCSStore, HTTPStore, LocalStore, S3Store

from indexer.chains.http.client import host_of
from indexer.errors import ConfigurationError, NodeUnavailable, PermanentChainError
from warehouse_schema.identifiers import Height

CONFIGURATION = ".config.json"
FIRST_LEDGER = 2
"""No lake has the genesis ledger, 1."""

_SUFFIXES = (".xdr.zst", ".xdr.zstd")
"""Current suffix, and that of lakes written before SEP-54."""
_BATCH = re.compile(r"(?:.*/)?[0-9A-F]{8}--(\d+)(?:-(\d+))?\.xdr\.zstd?")
_LAST = 0xFFFFFFFF
_OPTIONS = ("region", "endpoint", "anonymous", "ledgers_per_batch", "batches_per_partition")


@dataclass(frozen=True, slots=True)
class LakeBatch:
    """Ledgers of one object, as its name says."""

    first: Height
    last: Height


@dataclass(frozen=True, slots=True)
class Layout:
    """Ledgers per object, and objects per folder."""

    ledgers_per_batch: int
    batches_per_partition: int

    def batch_of(self, height: Height) -> LakeBatch:
        """The batch that contains a ledger."""
        first = height - height % self.ledgers_per_batch
        return LakeBatch(Height(first), Height(first + self.ledgers_per_batch - 1))

    def batch_after(self, batch: LakeBatch, count: int) -> LakeBatch:
        """The batch `count` batches after."""
        return self.batch_of(Height(batch.first + count * self.ledgers_per_batch))

    def batches(self, first: Height, last: Height) -> Iterator[LakeBatch]:
        """The batches of `first … last`, in order."""
        batch = self.batch_of(first)
        while batch.first <= last:
            yield batch
            batch = self.batch_after(batch, 1)

    def names(self, batch: LakeBatch) -> tuple[str, ...]:
        """Possible names of a batch's object, most likely first."""
        folder = ""
        if self.batches_per_partition > 1:
            size = self.ledgers_per_batch * self.batches_per_partition
            first = batch.first - batch.first % size
            folder = f"{_LAST - first:08X}--{first}-{first + size - 1}/"
        # The first batch is named for ledger 2, or for where it would begin.
        begins = dict.fromkeys((batch.first, max(batch.first, FIRST_LEDGER)))
        stems = [
            f"{_LAST - begin:08X}--{begin}" + (f"-{batch.last}" if begin < batch.last else "")
            for begin in begins
            if begin <= batch.last
        ]
        return tuple(folder + stem + suffix for suffix in _SUFFIXES for stem in stems)


def batch_named(name: str) -> LakeBatch | None:
    """The batch of an object's name; None for another object."""
    found = _BATCH.fullmatch(name)
    if found is None:
        return None
    return LakeBatch(Height(int(found[1])), Height(int(found[2] or found[1])))


class LakeStore:
    """Objects of one lake, by their names in it."""

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        """`timeout` is seconds of one request. Raises `ConfigurationError` that quotes the URL."""
        parts = urlsplit("file://" + url if url.startswith("/") else url)
        options = dict(parse_qsl(parts.query))
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise ConfigurationError(f"{url!r}: {', '.join(unknown)} is none of {_OPTIONS}")
        self.name = urlunsplit((parts.scheme, host_of(url), parts.path, "", ""))
        self.layout: Layout | None = None
        """From the URL, for a lake without a configuration file."""
        sizes = [options.get(key, "") for key in ("ledgers_per_batch", "batches_per_partition")]
        if any(sizes):
            if not all(each.isdecimal() and int(each) > 0 for each in sizes):
                raise ConfigurationError(
                    f"{url!r}: both sizes of the layout must be numbers from 1"
                )
            self.layout = Layout(*map(int, sizes))
        self.can_list = parts.scheme not in ("http", "https")
        self._is_folder = parts.scheme == "file"
        place = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        try:
            self._store = _open(parts.scheme, place, options, timeout)
        except (BaseError, ValueError, OSError) as error:
            raise ConfigurationError(f"{self.name} is no lake: {_first_line(error)}") from error

    def read(self, name: str) -> bytes | None:
        """An object, or None."""
        try:
            return bytes(self._store.get(name).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._failure(name, error) from error

    def has(self, name: str) -> bool:
        """An object of that name exists."""
        try:
            self._store.head(name)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise self._failure(name, error) from error
        return True

    def newest(self) -> LakeBatch | None:
        """The newest batch, whose name sorts first; None in an empty lake."""
        try:
            names = (
                self._folder_names()
                if self._is_folder
                # No more pages are listed than are consumed.
                else (each["path"] for page in self._store.list(chunk_size=10) for each in page)
            )
            return next(filter(None, map(batch_named, names)), None)
        except (BaseError, OSError) as error:
            raise self._failure("the newest batch", error) from error

    def _folder_names(self) -> Iterator[str]:
        """Sorted names of a file system, which lists folders unsorted."""
        top = self._store.list_with_delimiter()
        yield from sorted(each["path"] for each in top["objects"])
        for folder in sorted(top["common_prefixes"]):
            inside = self._store.list_with_delimiter(folder)
            yield from sorted(each["path"] for each in inside["objects"])

    def _failure(self, name: str, error: Exception) -> PermanentChainError | NodeUnavailable:
        message = f"{name} of {self.name}: {_first_line(error)}"
        if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
            return PermanentChainError(message)
        return NodeUnavailable(message)


def _open(
    scheme: str, place: str, options: Mapping[str, str], timeout: float
) -> S3Store | GCSStore | HTTPStore | LocalStore:
    if scheme == "file":
        return LocalStore(unquote(urlsplit(place).path))
    client: dict[str, Any] = {"timeout": timedelta(seconds=timeout), "allow_http": True}
    # The follower retries itself, and logs it.
    retry: dict[str, Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=timeout)}
    if scheme in ("http", "https"):
        return HTTPStore.from_url(place, client_options=client, retry_config=retry)  # type: ignore[arg-type]
    config: dict[str, Any] = {key: options[key] for key in ("region", "endpoint") if key in options}
    if "anonymous" in options:
        config["skip_signature"] = options["anonymous"] == "true"
    if scheme == "s3":
        return S3Store.from_url(place, config=config, client_options=client, retry_config=retry)  # type: ignore[arg-type]
    if scheme == "gs":
        return GCSStore.from_url(place, config=config, client_options=client, retry_config=retry)  # type: ignore[arg-type]
    raise ValueError(f"{scheme!r} is none of file, http, https, s3 and gs")


def _first_line(error: Exception) -> str:
    """Message of the store's library, without its inner state on further lines."""
    return str(error).partition("\n")[0]
