"""The configuration of a process: environment variables, over what isthmus.toml says.

`ISTHMUS_CONFIG` is the path of the file. Its keys become the variables that the settings models
read; nothing else reads the environment.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from warehouse_schema.known_variables import (
    CHAIN,
    KnownVariable,
    find_variable,
    known_variables,
    variable_pattern,
)
from warehouse_schema.toml_file import KeyPath, TomlFile, dotted, leaves

CONFIG_VARIABLE = "ISTHMUS_CONFIG"
FILE_ADVICE = "write it into a file that only the process may read, and set"

_CHAIN_ID = re.compile(r"eip155:[1-9][0-9]*|stellar:[a-z]+")
_VARIABLE = re.compile(r"\b(DATABASE_URL|ISTHMUS_[A-Z0-9_]*(?:[A-Z0-9]|<CHAIN>))(_FILE)?(?!\w)")
_PLACEHOLDER = re.compile(r"<.*>")
"""What `isthmus config init` writes for a value that it cannot know."""
_EXPECTED = {
    "integer": "an integer, without quotes",
    "list": 'a list of texts, such as ["…"], with one or more',
    "path": "a path in quotes",
    "text": "a text in quotes",
}


class Configuration(dict[str, str]):
    """Variables by name. Those of `keys` are the file's, all others the environment's."""

    def __init__(
        self,
        environment: Mapping[str, str],
        file: TomlFile | None = None,
        values: Mapping[str, tuple[str, KeyPath]] | None = None,
        problems: Iterable[str] = (),
        *,
        refused: Iterable[str] = (),
        is_readable: bool = True,
    ) -> None:
        """`values` is variable → text and key of the file; variables of the environment win."""
        given = {name for name, text in environment.items() if text or _may_be_empty(name)}
        kept = {
            name: each
            for name, each in (values or {}).items()
            if name not in given and counterpart(name) not in given
        }
        super().__init__({**environment, **{name: text for name, (text, _) in kept.items()}})
        self.file = file
        self.keys_of_file = {name: key for name, (_, key) in kept.items()}
        self.problems = tuple(problems)
        """What is wrong with the file itself, a sentence each."""
        self.is_readable = is_readable
        """Whether its keys are known at all; without them other problems mean nothing."""
        self.refused = frozenset(refused)
        """Variables whose values in the file are wrong: they are given, and not in the mapping."""
        self.not_permitted: set[str] | None = None
        """Sentences about secret files that this user may not read; None: they are problems."""

    def place(self, name: str) -> str | None:
        """`isthmus.toml:12 chains."eip155:1".rpc` of a variable that the file gives; else None."""
        key = self.keys_of_file.get(name)
        return None if key is None or self.file is None else self.file.place(key)

    def explain(self, message: str) -> str:
        """A message with the file's places instead of variables' names.

        A variable that is nowhere set gets its key behind it.
        """
        return message if self.file is None else _VARIABLE.sub(self._explained, message)

    def _explained(self, match: re.Match[str]) -> str:
        name = match[0]
        place = self.place(name) or self.place(counterpart(name))
        if place is not None or self.get(name):
            return place or name
        key = key_of(name)
        return name if key is None else f"{name} ({key})"


def load_configuration(environment: Mapping[str, str] | None = None) -> Configuration:
    """The variables of this process. Problems of the file are in the configuration."""
    given = dict(os.environ if environment is None else environment)
    named = given.get(CONFIG_VARIABLE)
    if not named:
        return Configuration(given)
    path = Path(named).absolute()
    try:
        file = TomlFile.read(path)
        may_all_write = bool(path.stat().st_mode & stat.S_IWOTH)
    except OSError as error:
        problem = f"{CONFIG_VARIABLE}: {path} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        problem = f"{CONFIG_VARIABLE}: {path} is no text in UTF-8"
    except tomllib.TOMLDecodeError as error:
        problem = f"{CONFIG_VARIABLE}: {path} is not TOML: {error}"
    else:
        values, problems = _values_of(file)
        if may_all_write:
            # It names code that runs and where money is sent from.
            problems[CONFIG_VARIABLE] = [
                f"{CONFIG_VARIABLE}: every user of this machine may write {path}; take that right "
                "away, such as by chmod 640"
            ]
        is_readable = "ISTHMUS_NETWORK" not in problems or bool(given.get("ISTHMUS_NETWORK"))
        return Configuration(
            given,
            file,
            values,
            [problem for each in problems.values() for problem in each],
            refused=problems,
            is_readable=is_readable,
        )
    return Configuration(given, problems=[problem], is_readable=False)


def explain(message: object) -> str:
    """A message about settings, with the places of what isthmus.toml says."""
    return load_configuration().explain(str(message))


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with changes, for a process that it starts."""
    return {**os.environ, **variables}


def set_variables(variables: Mapping[str, str]) -> None:
    """Set variables for libraries that read the environment, and for child processes."""
    os.environ.update(variables)
    for name in variables:
        # The value stands there now; both at once would contradict each other.
        os.environ.pop(counterpart(name), None)


def is_given(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable or the file of its value is named, rightly or wrongly; none is read."""
    refused = environment.refused if isinstance(environment, Configuration) else ()
    return any(environment.get(each) or each in refused for each in (name, counterpart(name)))


def counterpart(name: str) -> str:
    """The variable that may stand in the place of another: with `_FILE` or without."""
    return name.removesuffix("_FILE") if name.endswith("_FILE") else f"{name}_FILE"


def key_of(name: str) -> str | None:
    """The key that an operator may set for a variable; `name` may hold `<CHAIN>`."""
    known = find_variable(name)
    if known is not None and known.protection == "secret":
        known = find_variable(counterpart(name))
    if known is None or known.key is None:
        return None
    if CHAIN in name:
        return known.key
    match = variable_pattern(known.name).fullmatch(name) or variable_pattern(known.name).fullmatch(
        counterpart(name)
    )
    chain = match["chain"] if match is not None and CHAIN in known.name else ""
    return known.key.replace(CHAIN, f'"{chain.lower().replace("_", ":", 1)}"')


def has_password(url: str) -> bool:
    """Whether a URL names a password, before its host or in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return parts.password is not None or "password" in parse_qs(parts.query)


def _values_of(
    file: TomlFile,
) -> tuple[dict[str, tuple[str, KeyPath]], dict[str, list[str]]]:
    """Variable → its text and key; and variable → problems, `""` for unknown keys."""
    found: dict[str, tuple[str, KeyPath]] = {}
    problems: dict[str, list[str]] = {}
    for path, value in leaves(file.keys):
        if value == {} and _is_table(path):
            continue
        known, chain = _find_key(path)
        if known is None:
            problems.setdefault("", []).append(f"{file.place(path)} {_unknown(path)}")
            continue
        name = known.name.replace(CHAIN, chain.upper().replace(":", "_"))
        reason = _reason(known, path, value)
        if chain and not _CHAIN_ID.fullmatch(chain):
            reason = f'has "{chain}", which is no chain id such as eip155:1 or stellar:pubnet'
        elif reason is None and counterpart(name) in found:
            other = file.place(found[counterpart(name)][1])
            reason = f"and {other} are both set; leave one of them out"
        if reason is not None:
            problems.setdefault(name, []).append(f"{file.place(path)} {reason}")
        else:
            found[name] = (_as_text(known, value, file.path.parent), path)
    return found, problems


def _find_key(path: KeyPath) -> tuple[KnownVariable | None, str]:
    """The variable of a key, and the chain in it."""
    for known in known_variables():
        if len(known.path) == len(path) and _fits(path, known.path):
            chains = [part for part, form in zip(path, known.path, strict=True) if form == CHAIN]
            return known, chains[0] if chains else ""
    return None, ""


def _is_table(path: KeyPath) -> bool:
    return any(
        len(known.path) > len(path) and _fits(path, known.path) for known in known_variables()
    )


def _fits(path: KeyPath, form: KeyPath) -> bool:
    return all(each in (part, CHAIN) for part, each in zip(path, form, strict=False))


def _unknown(path: KeyPath) -> str:
    chain = next((part for part in path if ":" in part), None)
    general = ".".join(CHAIN if part == chain else part for part in path)
    # An inline secret's key is known in order to refuse it, not to propose it.
    keys = [each.key for each in known_variables() if each.key and each.protection != "secret"]
    nearest = get_close_matches(general, keys, n=1, cutoff=0.0)[0]
    return (
        f"is no setting; the nearest one is {nearest.replace(CHAIN, dotted((chain or CHAIN,)))} "
        "(docs/settings.md)"
    )


def _reason(known: KnownVariable, path: KeyPath, value: object) -> str | None:
    """What is wrong with the value of a known key. It is not repeated: it may hold a secret."""
    key_of_file = dotted((*path[:-1], f"{path[-1]}_file"))
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(each, str) and _PLACEHOLDER.fullmatch(each) for each in texts):
        return "is still a placeholder: write its value, or leave the key out"
    if known.protection == "secret":
        return f"must not hold the secret: {FILE_ADVICE} {key_of_file}"
    full = [each for each in texts if isinstance(each, str) and each]
    if known.kind == "integer":
        is_right = isinstance(value, int) and not isinstance(value, bool)
    else:
        is_right = len(full) == len(texts) and isinstance(value, list) == (known.kind == "list")
        is_right &= bool(full) or known.keep_empty
    if not is_right:
        return f"must be {_EXPECTED[known.kind]}"
    if known.kind == "list" and any("," in each for each in full):
        return "must have no comma inside of a text"
    if known.protection == "file" and any(has_password(each) for each in full):
        return f"must not hold a password: {FILE_ADVICE} {key_of_file}"
    return None


def _as_text(known: KnownVariable, value: object, folder: Path) -> str:
    if isinstance(value, list):
        return ",".join(value)
    text = str(value)
    # Where a folder may stand, some settings also take a URL.
    return str(folder / text) if known.kind == "path" and "://" not in text else text


def _may_be_empty(name: str) -> bool:
    known = find_variable(name)
    return known is not None and known.keep_empty
