"""The stellar.toml of SEP-1, which wallets read before they sign in.

Nothing in it comes from a request. The operator's entries come from a TOML file
(`ISTHMUS_STELLAR_TOML`), limited to those that cannot contradict the service's own.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from api.auth.sep10 import Sep10
from indexer.config.networks import Network
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import AssetId

VERSION = "2.7.0"
"""Of SEP-1."""
MAX_BYTES = 100_000
STATEMENTS = ("ACCOUNTS", "DOCUMENTATION", "PRINCIPALS", "CURRENCIES", "URI_REQUEST_SIGNING_KEY")
"""Entries of the operator; the others follow from the configuration."""

_USDC = {
    "name": "USD Coin",
    "desc": "USDC, a digital dollar issued by Circle; deposited and withdrawn by CCTP.",
    "anchor_asset_type": "fiat",
    "anchor_asset": "USD",
}
_USDT0 = {
    "name": "USDT0",
    "desc": "USDT0, the omnichain form of Tether's USDT; deposited and withdrawn by its OFT.",
    "anchor_asset_type": "crypto",
    "anchor_asset": "USDT",
}


def stellar_toml(
    network: Network,
    sep10: Sep10 | None,
    statement: Mapping[str, Any],
    webhook_key: str | None = None,
) -> str:
    """The whole file; without SEP-10 only the served assets."""
    web_auth: dict[str, Any] = {}
    documentation: dict[str, Any] = {}
    accounts = list(statement.get("ACCOUNTS", []))
    if sep10 is not None:
        web_auth = {"SIGNING_KEY": sep10.signing_key, "WEB_AUTH_ENDPOINT": sep10.endpoint}
        documentation = {"ORG_URL": sep10.endpoint.removesuffix("/auth")}
        accounts = [sep10.signing_key, *(each for each in accounts if each != sep10.signing_key)]
    entries = {key: statement[key] for key in STATEMENTS if key in statement}
    document = {
        "VERSION": VERSION,
        "NETWORK_PASSPHRASE": network.stellar.passphrase,
        **web_auth,
        # Not of SEP-1: verifies webhooks (docs/webhooks.md).
        **({} if webhook_key is None else {"WEBHOOK_SIGNING_KEY": webhook_key}),
        **entries,
        "ACCOUNTS": accounts,
        # Also when empty: @stellar/typescript-wallet-sdk reads no file without it.
        "DOCUMENTATION": documentation | entries.get("DOCUMENTATION", {}),
        "CURRENCIES": list(_currencies(network, statement.get("CURRENCIES", []))),
    }
    # Bare keys must come before the first table.
    plain = {key: value for key, value in document.items() if not _is_table(value)}
    return tomlkit.dumps({**plain, **document})


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )


def _currencies(network: Network, additions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Our assets, each with the operator's entries of the same code and issuer."""
    for asset, defaults in ((network.stellar.usdc, _USDC), (network.stellar.usdt0, _USDT0)):
        if asset is None:
            continue
        key = _code_and_issuer(asset)
        added = [each for each in additions if {k: each.get(k) for k in key} == key]
        yield {
            **key,
            "status": "live" if network.name == "mainnet" else "test",
            "display_decimals": 2,
            **defaults,
            "is_asset_anchored": True,
            "is_unlimited": True,
            **{name: value for each in added for name, value in each.items()},
        }


def _code_and_issuer(asset: AssetId) -> dict[str, str]:
    _, code, issuer = asset.split(":")
    return {"code": code, "issuer": issuer}


def read_statement(path: Path | None, network: Network) -> Mapping[str, Any]:
    """The operator's entries. Raises `ConfigurationError` that names the wrong entry."""
    if path is None:
        return {}
    try:
        statement = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"ISTHMUS_STELLAR_TOML: {path}: {error}") from error
    unknown = sorted(set(statement) - set(STATEMENTS))
    if unknown:
        raise ConfigurationError(
            f"ISTHMUS_STELLAR_TOML: {unknown[0]} is not the operator's to say; "
            f"{', '.join(STATEMENTS)} are"
        )
    for key, value in statement.items():
        inner = dict if key in ("PRINCIPALS", "CURRENCIES") else str
        kind: type = {"DOCUMENTATION": dict, "URI_REQUEST_SIGNING_KEY": str}.get(key, list)
        if not isinstance(value, kind) or (
            isinstance(value, list) and not all(isinstance(each, inner) for each in value)
        ):
            raise ConfigurationError(f"ISTHMUS_STELLAR_TOML: {key} is not of its kind")
    ours = [
        _code_and_issuer(asset) for asset in (network.stellar.usdc, network.stellar.usdt0) if asset
    ]
    for each in statement.get("CURRENCIES", []):
        if {"code": each.get("code"), "issuer": each.get("issuer")} not in ours:
            raise ConfigurationError(
                f"ISTHMUS_STELLAR_TOML: {each.get('code')} of {each.get('issuer')} is not served"
            )
    return statement
