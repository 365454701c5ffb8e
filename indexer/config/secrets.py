"""Secrets as an operator hands them over: in a variable, or in a file that one names."""

from collections.abc import Mapping
from pathlib import Path

from indexer.errors import ConfigurationError


def secret(env: Mapping[str, str], variable: str) -> str | None:
    """What a variable holds, or the file that `<variable>_FILE` names; None when neither is set.

    Raises `ConfigurationError`, which never repeats it.
    """
    given, file = env.get(variable), env.get(f"{variable}_FILE")
    if given and file:
        raise ConfigurationError(f"{variable} and {variable}_FILE are both set; which one holds?")
    if not file:
        return given or None
    try:
        held = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{variable}_FILE: {file} cannot be read") from error
    if not held:
        raise ConfigurationError(f"{variable}_FILE: {file} is empty")
    return held
