"""Where each setting comes from: default, isthmus.toml, a variable, or a file with a secret."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo

from indexer.config.sections import SECTIONS
from warehouse_schema.configuration import Configuration, has_password, key_of
from warehouse_schema.known_variables import CHAIN, variable_pattern
from warehouse_schema.variables import default_text, option_of

MASK = "***"


class Setting(NamedTuple):
    """A setting as it is shown: no secret is in it."""

    key: str
    variable: str
    value: str | None
    """None: unset."""
    source: str


def settings_of(configuration: Configuration) -> Iterator[Setting]:
    """All settings, and those by chain that are set; no file with a secret is read."""
    for section in SECTIONS:
        for field in section.model().model_fields.values():
            pattern = str(field.alias)
            if CHAIN not in pattern:
                yield _setting(configuration, pattern, field)
                continue
            for name in sorted(configuration):
                bare = name.removesuffix("_FILE")
                if variable_pattern(pattern).fullmatch(bare):
                    yield _setting(configuration, bare, field)


def mask_url(url: str) -> str:
    """A URL without user, password, path and query; of a database, user and path are kept."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        where = host if parts.port is None else f"{host}:{parts.port}"
    except ValueError:
        return MASK
    if not parts.scheme or not where:
        return MASK
    if parts.scheme.startswith("postgres"):
        user = f"{parts.username or ''}{f':{MASK}' if parts.password else ''}"
        path = parts.path
    else:
        user = MASK if parts.username else ""
        path = f"/{MASK}" if parts.path.strip("/") else ""
    query = f"?{MASK}" if parts.query or parts.fragment else ""
    return f"{parts.scheme}://{f'{user}@' if user else ''}{where}{path}{query}"


def _setting(configuration: Configuration, name: str, field: FieldInfo) -> Setting:
    key = key_of(name) or ""
    file_name = f"{name}_FILE"
    if option_of(field, "has_file") and (file := configuration.get(file_name)):
        named_by = configuration.place(file_name) or f"variable {file_name}"
        return Setting(key, name, MASK, f"file {Path(file)} ({named_by})")
    text = configuration.get(name, "")
    if not text and not (name in configuration and option_of(field, "keep_empty")):
        return Setting(key, name, default_text(field.default), "default")
    source = configuration.place(name) or f"variable {name}"
    return Setting(key, name, _shown(text, field), source)


def _shown(text: str, field: FieldInfo) -> str:
    if option_of(field, "secret"):
        return MASK
    if not text or (field.repr and not any(has_password(each) for each in text.split(","))):
        return text
    # Hidden: URLs with keys in them, and what a secret may have been put into by mistake.
    return ",".join(mask_url(each.strip()) for each in text.split(","))
