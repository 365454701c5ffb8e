"""One folder for each mechanism: its events, decoding and messages."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

BRIDGE_FOLDERS = ("cctp", "oft", "deposit_address", "tokens")
"""All folders here, in the order of their decoders; a new mechanism adds its name."""


def bridge_modules(name: str) -> list[ModuleType]:
    """The modules of that name, `events` or `decode_evm`, of the folders that have one.

    Imported by name, so that a process loads only the kind that it uses: layouts need polars, which
    the api and the relay do without.
    """
    paths = [f"{__name__}.{folder}.{name}" for folder in BRIDGE_FOLDERS]
    return [import_module(path) for path in paths if find_spec(path) is not None]
