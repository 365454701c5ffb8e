"""`isthmus keys …`: new keys, and replacing those of the relay; each returns its exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast, get_args

import click
from sqlalchemy import Connection

from indexer.cli.base import operator_command
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import open_engine
from relay.nonces import AccountId
from relay.rotation import account_uses, retire_account, webhook_keys
from relay.signing.new_keys import KeyKind, write_new_key
from warehouse_schema.identifiers import ChainId

_FIRST = {
    "evm": "fund it, then set `key_file` under [relay.chains.<CHAIN>]",
    "stellar": "fund it, then set `key_file` under [relay.chains.<CHAIN>], or under "
    "[relay.sponsor.<CHAIN>]",
    "webhook": "set `key_file` under [webhooks], and what `isthmus webhook-key` prints as "
    "`webhook_public_key` under [api]",
    "sep10": "set `sep10_key_file` under [api]",
    "token": "set `token_key_file` under [api]",
}
"""Kind → where isthmus.toml names its first key."""
_NEXT = {
    "evm": "fund it, then add it to the file of ISTHMUS_RELAY_KEY_<CHAIN>_FILE, with a comma",
    "stellar": "fund it, then add it to the file of ISTHMUS_RELAY_KEY_<CHAIN>_FILE, or of "
    "ISTHMUS_RELAY_SPONSOR_<CHAIN>_FILE, with a comma",
    "webhook": "add it to the file of ISTHMUS_WEBHOOK_KEY_FILE, with a comma",
    "sep10": "set ISTHMUS_SEP10_PUBLIC_KEY_OTHER to the public key in every process of the api",
    "token": "set ISTHMUS_TOKEN_KEY_OTHER_FILE to the file in every process of the api",
}
"""Kind → the first step of replacing a key that is in use."""


@contextmanager
def _connection(settings: Settings) -> Iterator[Connection]:
    """A transaction as the relay's role."""
    engine = open_engine(settings, "relay", pool_size=1)
    try:
        with engine.begin() as conn:
            yield conn
    finally:
        engine.dispose()


@click.group()
def keys() -> None:
    """Make new keys, and replace old ones."""


@keys.command()
@click.argument("kind", type=click.Choice(get_args(KeyKind)))
@click.argument("file", type=click.Path(path_type=Path))
@operator_command
def new(kind: str, file: Path) -> int:
    """Write a new secret into a new file that only its owner may read."""
    public = write_new_key(cast(KeyKind, kind), file)
    if public:
        click.echo(public)
    click.echo(f"a first key: {_FIRST[kind]} in isthmus.toml", err=True)
    click.echo(f"a key's successor: {_NEXT[kind]} (docs/operations/key-rotation.md)", err=True)
    return 0


@keys.command()
@operator_command
def check() -> int:
    """Show each account of the relay, what it still has to do, and the keys of webhooks."""
    with _connection(load_settings()) as conn:
        for use in account_uses(conn):
            where = f"{use.account.chain} {use.account.address}"
            click.echo(f"{where} ({use.duty}): {use.next_step}")
        for public_key in webhook_keys(conn):
            click.echo(f"webhooks {public_key}: signs")
    return 0


@keys.command()
@click.argument("chain")
@click.argument("address")
@operator_command
def retire(chain: str, address: str) -> int:
    """Forget an account whose key was removed; refused while anything needs the account."""
    settings = load_settings()
    known = settings.network.chain(ChainId(chain)).id
    account = AccountId(known, address if known.startswith("stellar:") else address.lower())
    with _connection(settings) as conn:
        retire_account(conn, account)
    click.echo(
        f"{chain} {address} is retired. What it holds of the native coin stays there: send it on "
        "with the key, then destroy the key"
    )
    return 0
