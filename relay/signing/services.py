"""Key services by the text of a setting: `aws-kms:…`, `gcp-kms:…`, `vault:…`, `pkcs11:…`.

Any other text is `module:name`: a callable of the operator that returns the key of a chain id.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from indexer.errors import ConfigurationError
from relay.keys import EvmKey, StellarKey

SERVICES: Mapping[str, tuple[str, str]] = {
    "aws-kms": ("relay.signing.aws_kms", "aws"),
    "gcp-kms": ("relay.signing.gcp_kms", "gcp"),
    "vault": ("relay.signing.vault_transit", "vault"),
    "pkcs11": ("relay.signing.pkcs11_token", "pkcs11"),
}
"""Service → its module, and the extra of this package that installs what that imports."""


@dataclass(frozen=True, slots=True)
class SigningSettings:
    """Settings of key services that no variable of the vendor holds."""

    pkcs11_module: Path | None = None
    """Shared library of the HSM's vendor."""
    pkcs11_pin: str | None = field(default=None, repr=False)
    vault_token_file: Path | None = None
    """None: `VAULT_TOKEN` or `~/.vault-token`, as Vault's own client does."""


class _Service(Protocol):
    """Module of a service. `name` is the setting's text behind the colon.

    Both functions raise `ConfigurationError` for a name or setting that is wrong; the keys raise
    `RetryableChainError` while the service does not answer.
    """

    def evm_key(self, name: str, settings: SigningSettings) -> EvmKey: ...

    def stellar_key(self, name: str, settings: SigningSettings) -> StellarKey: ...


def load_evm_keys(
    variable: str, text: str, settings: SigningSettings, *arguments: object
) -> list[EvmKey]:
    """Keys that a setting names, with commas between, and their public keys read.

    `arguments` are those of `module:name`. Raises `ConfigurationError` with the variable's name,
    and `RetryableChainError` while a service does not answer.
    """
    return [
        _load(variable, each, lambda service, name: service.evm_key(name, settings), arguments)
        for each in _names(text)
    ]


def load_stellar_keys(
    variable: str, text: str, settings: SigningSettings, *arguments: object
) -> list[StellarKey]:
    """The same for Ed25519 keys."""
    return [
        _load(variable, each, lambda service, name: service.stellar_key(name, settings), arguments)
        for each in _names(text)
    ]


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def _load(
    variable: str, text: str, load: Callable[[_Service, str], Any], arguments: tuple[object, ...]
) -> Any:
    scheme, _, name = text.partition(":")
    if scheme not in SERVICES:
        return _maker(variable, text)(*arguments)
    with _naming(variable):
        key = load(_service(scheme), name)
        # Wrong permissions and names are found at the start, not at the first transfer.
        _ = key.public_key
    return key


def _service(scheme: str) -> _Service:
    module, extra = SERVICES[scheme]
    try:
        return cast(_Service, import_module(module))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("relay"):
            raise
        raise ConfigurationError(
            f"{scheme} needs the package {error.name}: pip install 'isthmus[{extra}]'"
        ) from error


@contextmanager
def _naming(variable: str) -> Iterator[None]:
    """Put the variable's name before an error of a service."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{variable}: {error}") from error


def _maker(variable: str, text: str) -> Callable[..., object]:
    module, _, attribute = text.partition(":")
    try:
        maker: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{variable} is {text!r}; it must be {', '.join(f'{each}:…' for each in SERVICES)} or "
            f"module:name, and importable: {error}"
        ) from error
    if not callable(maker):
        raise ConfigurationError(f"{variable}: {text} cannot be called")
    return maker
