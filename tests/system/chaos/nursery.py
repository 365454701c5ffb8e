"""A process that gives birth to our processes: `python -m tests.system.chaos.nursery`.

`isthmus` spends most of two seconds of processor time on imports, and a kill during them
proves nothing. This process imports once and forks; each child is a process of its own, in a
session of its own, that runs a program's `main` as the command line would. The API's server loads
the API itself in its workers, as ever.

One JSON object a line. In: `arguments`, `environment`, `log`. Out: `{"born": pid}` for
each line in, and `{"ended": pid, "code": code}` for each child that ended, by a signal as a
negative code.
"""

import json
import os
import random
import selectors
import signal
import sys
from pathlib import Path
from typing import Any

import relay.cli  # noqa: F401
from indexer.cli.main import main as isthmus


def main() -> None:
    """Serve until standard input ends; then end every child and go."""
    wakes, wakened = os.pipe()
    os.set_blocking(wakened, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakened)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: set[int] = set()
    unread = b""
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wakes, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wakes in ready:
                os.read(wakes, 4096)
                _print_ended(living)
            if sys.stdin.fileno() in ready:
                read = os.read(sys.stdin.fileno(), 65536)
                if not read:
                    break
                *lines, unread = (unread + read).split(b"\n")
                for line in lines:
                    pid = _bear(json.loads(line))
                    living.add(pid)
                    _print_line(born=pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _print_line(**what: int) -> None:
    os.write(sys.stdout.fileno(), json.dumps(what).encode() + b"\n")


def _print_ended(living: set[int]) -> None:
    for pid in [*living]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            living.remove(pid)
            _print_line(ended=pid, code=os.waitstatus_to_exitcode(status))


def _bear(child: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        # What it raises goes up through this program's frames and ends it with a traceback.
        os._exit(_live(child))
    return pid


def _live(child: dict[str, Any]) -> int:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    random.seed()
    log = os.open(Path(child["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)
    os.environ.update(child["environment"])
    code = isthmus(child["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
