"""Checks what `make setup` needs before it begins: one sentence for each thing that is missing.

python3 devnet/prerequisites.py FOLDER

Standard library only, and syntax of Python 3.7: it reports that 3.11 is needed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

PYTHON = (3, 11)
NODE = 20
DISK_BYTES = 3 * 1024**3
"""Virtual environment 0.8 GB, npm's tools 0.4 GB, as much again for what is downloaded; a demo."""


def missing(folder: str) -> Iterator[str]:
    """Sentences about what is missing for a set-up in `folder`; none when all is there."""
    if sys.version_info < PYTHON:
        found = ".".join(map(str, sys.version_info[:2]))
        yield f"Python 3.11 or newer is needed, this is {found}: set PYTHON."
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        yield "Python's venv module is missing: install it (Debian: apt install python3-venv)."
    yield from _missing_node()
    if not os.access(folder, os.W_OK):
        yield f"The folder {folder} cannot be written to: everything is installed in it."
    elif shutil.disk_usage(folder).free < DISK_BYTES:
        free = shutil.disk_usage(folder).free / 1024**3
        yield f"3 GB of free disk space are needed, {folder} has {free:.1f} GB."


def _missing_node() -> Iterator[str]:
    node = shutil.which("node")
    if node is None:
        yield "Node.js 20 or newer is missing: install it from https://nodejs.org."
    else:
        output = subprocess.run([node, "--version"], stdout=subprocess.PIPE, check=False).stdout
        found = re.match(rb"v(\d+)", output)
        if found is None or int(found.group(1)) < NODE:
            version = output.decode(errors="replace").strip() or "without a version"
            yield f"Node.js 20 or newer is needed, {node} is {version}."
    if shutil.which("npm") is None:
        yield "npm is missing: it comes with Node.js (Debian: apt install npm)."


if __name__ == "__main__":
    found = list(missing(sys.argv[1]))
    for sentence in found:
        print(sentence, file=sys.stderr)
    sys.exit(1 if found else 0)
