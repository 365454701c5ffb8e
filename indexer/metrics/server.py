"""The page `/metrics` of a process that serves nothing else, and of processes that share a folder.

It has no login: bind it to a private address.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_wsgi_server
from prometheus_client.core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from indexer.config.settings import Settings
from indexer.errors import ConfigurationError
from indexer.metrics.collectors import registry


def serve_loop_metrics(settings: Settings, variable: str) -> AbstractContextManager[None]:
    """As `serve_metrics`, the figures of this process."""
    return serve_metrics(settings, variable, registry())


@contextmanager
def serve_metrics(settings: Settings, variable: str, registry: CollectorRegistry) -> Iterator[None]:
    """Serve `/metrics` during the block, at the address of the variable if it is set.

    Raises `ConfigurationError` when the address cannot be used.
    """
    address = settings.metrics.get(variable)
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server, _ = start_wsgi_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise ConfigurationError(f"{variable} is {address!r}: {error.strerror}") from error
    try:
        yield
    finally:
        _close(server)


def _close(server: WSGIServer) -> None:
    server.shutdown()
    server.server_close()


@contextmanager
def shared_folder() -> Iterator[str]:
    """Folder of prometheus_client's multiprocess mode, removed at the end by its owner alone."""
    folder, owner = tempfile.mkdtemp(prefix="isthmus-metrics-"), os.getpid()
    try:
        yield folder
    finally:
        # A fork leaves through this block, too, while others count.
        if os.getpid() == owner:
            shutil.rmtree(folder)


def folder_registry(folder: str) -> CollectorRegistry:
    """Registry that adds up the files of all processes, also of those that ended."""
    registry = CollectorRegistry()
    registry.register(_SharedFiles(folder))
    return registry


class _SharedFiles(Collector):
    """Files of counting processes. Those of ended ones are added to one, or they would pile up."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._files = MultiProcessCollector(None, folder)
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering would collect."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Figures of all processes."""
        with self._lock:
            for kind in ("counter", "histogram"):
                self._merge_ended(kind)
            return list(self._files.collect())

    def _merge_ended(self, kind: str) -> None:
        ended = [path for path in self._folder.glob(f"{kind}_[0-9]*.db") if not _runs(path.stem)]
        if not ended:
            return
        total = MmapedDict(str(self._folder / f"{kind}_ended.db"))
        for path in ended:
            values = MmapedDict.read_all_values_from_file(str(path))
            for key, value, _, _ in values:
                before, _ = total.read_value(key)
                total.write_value(key, before + value, 0.0)
            path.unlink()
        total.close()


def _runs(stem: str) -> bool:
    """Whether the process of `counter_<pid>` is there."""
    try:
        os.kill(int(stem.rpartition("_")[2]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
