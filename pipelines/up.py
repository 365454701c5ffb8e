"""`isthmus up`: all processes of a configuration on one machine, under supervisord."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from io import StringIO
from pathlib import Path
from typing import NoReturn

from indexer.config.settings import SharedVariables, child_environment, read_variables
from indexer.errors import ConfigurationError
from pipelines.listeners import StartRefused, listeners_of, require_free
from pipelines.processes import (
    API,
    PAGE,
    PROCESSES,
    Process,
    needed_processes,
)

_MAX_SOCKET_PATH = 100
"""Bytes; the kernel takes 107, and supervisord makes the socket under a name that is longer."""
_STEADY_SECONDS = 5
"""A process that ends sooner did not start: the next attempt waits a second longer."""
_LOG_BYTES, _LOG_FILES = "20MB", "5"


class Installation:
    """The processes of a configuration, and the files of their supervisor under `ISTHMUS_HOME`."""

    def __init__(self, given: Mapping[str, str], *, bind: str | None, page_port: int | None):
        """Raises `ConfigurationError`."""
        self.home = read_variables(SharedVariables, given).home.absolute()
        self.folder = self.home / "supervisor"
        self.logs = self.home / "logs"
        self.file = self.folder / "supervisord.conf"
        self._socket = self.folder / "socket"
        self._processes = needed_processes(given)
        self._listeners = listeners_of(self._processes, given, bind=bind, page_port=page_port)
        self._options = {
            API.name: () if bind is None else ("--bind", bind),
            PAGE.name: () if page_port is None else ("--port", str(page_port)),
        }
        if len(os.fsencode(self._socket)) > _MAX_SOCKET_PATH:
            raise ConfigurationError(
                f"ISTHMUS_HOME is too long for the path of a socket, {self._socket}: choose one of "
                f"at most {_MAX_SOCKET_PATH - len('/supervisor/socket')} bytes"
            )
        for path in (self.home, _isthmus()):
            if re.search(r"[\s;#%'\"\\]", str(path)):
                raise ConfigurationError(
                    f"{path}: supervisord takes no path with blanks, quotes, backslashes, "
                    "`;`, `#` or `%`"
                )

    def require_startable(self) -> None:
        """Raise `StartRefused` while another supervisor runs here, or an address is in use."""
        if self._has_supervisor():
            raise StartRefused(
                f"`isthmus up` runs already under ISTHMUS_HOME ({self.home}), as the process in "
                f"{self.folder / 'pid'}. Stop that process (SIGTERM), and wait until it has ended"
            )
        require_free(self._listeners)

    def _has_supervisor(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self._socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True

    def configuration(self) -> str:
        """Text of supervisord.conf. It holds no setting: processes read them as this one did."""
        parser = ConfigParser(interpolation=None)
        parser["unix_http_server"] = {"file": str(self._socket), "chmod": "0600"}
        parser["supervisord"] = {
            "pidfile": str(self.folder / "pid"),
            "umask": "077",
            # As root, supervisord warns unless the user is set.
            **({"user": "root"} if os.geteuid() == 0 else {}),
            "logfile": str(self.logs / "supervisord.log"),
            "logfile_maxbytes": _LOG_BYTES,
            "logfile_backups": _LOG_FILES,
        }
        interface = "supervisor.rpcinterface:make_main_rpcinterface"
        parser["rpcinterface:supervisor"] = {"supervisor.rpcinterface_factory": interface}
        parser["supervisorctl"] = {"serverurl": f"unix://{self._socket}"}
        for process in self._processes:
            parser[f"program:{process.name}"] = self._program(process)
        text = StringIO()
        parser.write(text)
        return text.getvalue()

    def write(self) -> None:
        """Write the file, readable by its owner alone."""
        for folder in (self.home, self.folder, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.configuration())
        fresh.replace(self.file)

    def run(self) -> NoReturn:
        """Become supervisord."""
        program = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self.file)]
        # Relative in the environment, it would mean something else to a process elsewhere.
        environment = child_environment({"ISTHMUS_HOME": str(self.home)})
        os.execve(program[0], program, environment)  # noqa: S606  # no shell is wanted

    def _program(self, process: Process) -> dict[str, str]:
        words = (str(_isthmus()), *process.command, *self._options.get(process.name, ()))
        return {
            "command": " ".join(words),
            # supervisord starts the lowest first, and stops the highest first, one by one.
            "priority": str(100 + PROCESSES.index(process)),
            "autorestart": "true",
            "startsecs": str(_STEADY_SECONDS),
            # For good: the pause grows by a second an attempt.
            "startretries": "1000000",
            "stopwaitsecs": str(process.stop_seconds),
            "stopasgroup": "true",
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": str(self.logs / f"{process.name}.log"),
            "stdout_logfile_maxbytes": _LOG_BYTES,
            "stdout_logfile_backups": _LOG_FILES,
        }


def run_isthmus(*arguments: str) -> int:
    """Exit code of another command `isthmus …`."""
    return subprocess.run([_isthmus(), *arguments], check=False).returncode


def _isthmus() -> Path:
    return Path(sys.executable).with_name("isthmus")
