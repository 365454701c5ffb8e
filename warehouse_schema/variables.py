"""Environment variables as pydantic models.

A model has one field per variable: the alias is the variable's name, `key` is its key in
isthmus.toml, the description is its line in docs/settings.md. `<CHAIN>` in a name stands for a
chain id in capitals with `_`, and the field is a dict by that text. An empty variable is an unset
one, unless the field says otherwise.
"""

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from warehouse_schema.configuration import FILE_ADVICE, Configuration, has_password
from warehouse_schema.known_variables import (
    CHAIN,
    CHAIN_PATTERN,
    Kind,
    KnownVariable,
    Protection,
    find_variable,
    known_variables,
    variable_pattern,
)

_INTERNAL = ("ISTHMUS_DEMO", "ISTHMUS_EXAMPLES")
"""Mark of the devnet's process groups; number of generated examples in tests."""

Chains: TypeAlias = Literal["all", "evm", "stellar"]


class SettingsError(ValueError):
    """Variables are wrong or contradict each other; `problems` has a sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(sorted(set(problems), key=by_line))
        lines = [f"  {problem}" for problem in self.problems]
        super().__init__(
            self.problems[0]
            if len(lines) == 1
            else "\n".join([f"{len(lines)} settings are wrong:", *lines])
        )


def by_line(problem: str) -> list[tuple[int, str]]:
    """Sort key that puts line 9 before line 10."""
    parts = re.split(r"(\d+)", problem)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def variable(
    name: str,
    key: str | None,
    description: str,
    default: object = None,
    *,
    secret: bool = False,
    has_file: bool = False,
    hidden: bool = False,
    keep_empty: bool = False,
    chains: Chains = "all",
) -> Any:
    """A model's field for a variable.

    `key`: its key in isthmus.toml, with its tables; None: it is a variable alone. `secret`: only
    ever in the file that `<name>_FILE` names. `has_file`: may be there. `hidden`: error messages do
    not repeat the text; secrets are hidden. `chains`: which chains a `<CHAIN>` variable exists for.
    """
    return Field(
        {} if CHAIN in name else default,
        alias=name,
        description=description,
        repr=not (secret or hidden),
        json_schema_extra={
            "key": key,
            "secret": secret,
            "has_file": has_file or secret,
            "keep_empty": keep_empty,
            "chains": chains,
        },
    )


class Variables(BaseModel):
    """Base of the models; `read` creates them."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def contradictions(cls, given: Mapping[str, str]) -> Iterator[str]:  # noqa: ARG003
        """A sentence for each contradictory combination of variables; `given` has no empty ones."""
        yield from ()

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read the variables. Raises `SettingsError` with all problems at once."""
        if isinstance(environment, Configuration) and not environment.is_readable:
            raise SettingsError(environment.problems)
        resolved, unread, problems = _with_files(cls, environment)
        problems += inline_secrets(environment)
        problems += environment.problems if isinstance(environment, Configuration) else ()
        problems += unknown_variables(environment)
        given = {name: text for name, text in resolved.items() if text}
        if isinstance(environment, Configuration):
            unread += [name.removesuffix("_FILE") for name in environment.refused]
        problems += cls.contradictions(dict.fromkeys(unread, "not read") | given)
        try:
            values = cls.model_validate(_set_values(cls, resolved))
        except ValidationError as error:
            raise SettingsError([*problems, *_problems(cls, error)]) from None
        if problems:
            raise SettingsError(problems)
        return values

    @classmethod
    def names(cls) -> Iterator[tuple[str, FieldInfo]]:
        """Each variable with its field; its `_FILE` variable too."""
        for field_name, field in cls.model_fields.items():
            name = field.alias or field_name
            yield name, field
            if option_of(field, "has_file"):
                yield f"{name}_FILE", field


def _set_values(model: type[Variables], environment: Mapping[str, str]) -> dict[str, Any]:
    """Text of each variable that is set, by its name; texts by chain for a `<CHAIN>` variable."""
    values: dict[str, Any] = {}
    for field_name, field in model.model_fields.items():
        name, keeps_empty = field.alias or field_name, bool(option_of(field, "keep_empty"))
        if CHAIN in name:
            pattern = variable_pattern(name)
            by_chain = {
                match["chain"]: text
                for key, text in sorted(environment.items())
                if (text or keeps_empty) and (match := pattern.fullmatch(key))
            }
            if by_chain:
                values[name] = by_chain
        elif environment.get(name) or (keeps_empty and name in environment):
            values[name] = environment[name]
    return values


def option_of(field: FieldInfo, name: str) -> object:
    """An option that `variable` was called with."""
    extra = field.json_schema_extra
    return extra[name] if isinstance(extra, dict) else None


def declared_variables(model: type[Variables]) -> Iterator[KnownVariable]:
    """The variables of a model as variables.txt has them."""
    for field_name, field in model.model_fields.items():
        name, key = field.alias or field_name, option_of(field, "key")
        known = None if key is None else str(key)
        has_file = bool(option_of(field, "has_file"))
        protection: Protection = "plain"
        if has_file:
            protection = "secret" if option_of(field, "secret") else "file"
        keep_empty = bool(option_of(field, "keep_empty"))
        yield KnownVariable(name, known, kind_of(field), protection, keep_empty)
        if has_file:
            yield KnownVariable(f"{name}_FILE", known and f"{known}_file", "path")


def default_text(value: object) -> str | None:
    """A default as its variable would have it; None: unset."""
    if value is None or value == {}:
        return None
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    # A rate limit writes itself as "60 per 1 minute".
    return re.sub(r" per 1 ", "/", str(value))


def ordered_fields(model: type[Variables]) -> list[FieldInfo]:
    """Fields of a model, those of base classes first."""
    owners = [
        base.__annotations__ for base in reversed(model.__mro__) if "__annotations__" in vars(base)
    ]
    return [
        model.model_fields[name] for names in owners for name in names if name in model.model_fields
    ]


def kind_of(field: FieldInfo) -> Kind:
    """What its key holds in TOML, by the type that the text becomes."""
    parts = set(_parts(field.annotation))
    if parts & {tuple, frozenset}:
        return "list"
    if int in parts:
        return "integer"
    return "path" if Path in parts else "text"


def _parts(annotation: object) -> Iterator[object]:
    yield get_origin(annotation) or annotation
    for part in get_args(annotation):
        yield from _parts(part)


def is_chain_variable(pattern: str, name: str) -> bool:
    """Whether a variable matches a `<CHAIN>` pattern."""
    return variable_pattern(pattern).fullmatch(name) is not None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each `ISTHMUS_…` variable that no process reads, with the nearest one."""
    # An inline secret is known in order to refuse it, not to propose it.
    known = [each.name for each in known_variables() if each.protection != "secret"]
    found = []
    for name in sorted(environment):
        if not name.startswith("ISTHMUS_") or find_variable(name) or name in _INTERNAL:
            continue
        chain = re.search(CHAIN_PATTERN, name)
        general = name if chain is None else name.replace(chain[0], CHAIN)
        nearest = get_close_matches(general, known, n=1, cutoff=0.0)[0]
        if chain is not None:
            nearest = nearest.replace(CHAIN, chain[0])
        found.append(f"{name} is no setting; the nearest one is {nearest} (docs/settings.md)")
    return found


def inline_secrets(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each secret that is in a variable: of any process, other programs see it."""
    return [
        f"{name} must not hold the secret: {FILE_ADVICE} {name}_FILE"
        for name, text in sorted(environment.items())
        if text and (known := find_variable(name)) is not None and known.protection == "secret"
    ]


def _with_files(
    model: type[Variables], environment: Mapping[str, str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """The environment with files in the place of `_FILE` variables; problems never repeat them.

    Second are variables whose files may not be read, where the configuration allows it.
    """
    resolved, unread, problems = dict(environment), [], []
    not_permitted = environment.not_permitted if isinstance(environment, Configuration) else None
    is_real = environment.get("ISTHMUS_NETWORK", "devnet") != "devnet"
    having = {each.name: each.protection for each in declared_variables(model)}
    for name, file in environment.items():
        target = name.removesuffix("_FILE")
        known = find_variable(target)
        protection = "plain" if known is None else having.get(known.name, "plain")
        if not file or target == name or protection == "plain":
            continue
        if environment.get(target):
            problems.append(f"{target} and {name} are both set; leave one of them out")
            continue
        try:
            resolved[target] = Path(file).read_text().strip()
            may_all_read = bool(Path(file).stat().st_mode & stat.S_IROTH)
        except PermissionError:
            if not_permitted is None:
                problems.append(f"{name}: {file} cannot be read: permission denied")
            else:
                unread.append(target)
                not_permitted.add(f"{name}: {file} is not checked: this user may not read it")
        except (OSError, UnicodeDecodeError):
            problems.append(f"{name}: {file} cannot be read")
        else:
            if not resolved[target]:
                problems.append(f"{name}: {file} is empty")
            is_secret = protection == "secret" or any(
                has_password(url) for url in re.split(r"[,\s]+", resolved[target])
            )
            if is_real and is_secret and may_all_read:
                problems.append(
                    f"{name}: every user of this machine may read {file}; allow it to the "
                    "process's user or group alone, such as by chmod 600"
                )
    return resolved, unread, problems


def _problems(model: type[Variables], error: ValidationError) -> Iterator[str]:
    hidden = {name for name, field in model.names() if not field.repr}
    for each in error.errors(include_url=False):
        alias, *rest = (str(part) for part in each["loc"])
        name = alias.replace(CHAIN, rest[0]) if rest else alias
        reason = str(each["ctx"]["error"]) if each["type"] == "value_error" else each["msg"]
        yield f"{name} {reason}" if alias in hidden else f"{name} is {each['input']!r}; it {reason}"


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("must be a whole number")
    return int(text)


Count: TypeAlias = Annotated[int, BeforeValidator(_whole_number)]
"""Whole number, 0 or more."""


def within(least: int, most: int) -> BeforeValidator:
    """Validator of a whole number in a range, both ends included."""

    def validate(text: str) -> int:
        number = _whole_number(text)
        if not least <= number <= most:
            raise ValueError(f"must be from {least} to {most}")
        return number

    return BeforeValidator(validate)
