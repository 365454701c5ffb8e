"""`isthmus config`: all problems of all processes, sources without secrets, a new file."""

import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.cli.config_values import mask_url
from indexer.cli.main import main
from indexer.config.settings import load_settings
from warehouse_schema.configuration import load_configuration

SECRET = "hunter2"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, which every user may enter; no setting is in the environment."""
    for name in os.environ:
        if name == "DATABASE_URL" or name.startswith("ISTHMUS_"):
            monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.chdir(name)
        yield Path(name)


def configure(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "isthmus.toml").write_text(text)
    monkeypatch.setenv("ISTHMUS_CONFIG", "isthmus.toml")


def write_secret(path: Path, text: str = SECRET) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def test_check_names_problems_of_all_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
network = "testnet"
hme = "x"

[api]
proxies = -1

[relay.chains."eip155:1"]
budget = 5

[relay.chains."eip155:84532"]
kms = "module:name"

[page]
url = "dagster.example"
"""
    configure(folder, text, monkeypatch)
    monkeypatch.setenv("ISTHMUS_DATABSE", "x")
    assert main(["config", "check"]) == 2
    *problems, last = capsys.readouterr().out.splitlines()
    assert [problem.partition(" must be ")[0][:70] for problem in problems] == [
        "DATABASE_URL (database_url) is unset, and the embedded Postgres is for",
        "ISTHMUS_DATABSE is no setting; the nearest one is ISTHMUS_DAGSTER_URL ",
        "eip155:84532 has a key and no node: set ISTHMUS_RPC_EIP155_84532 (chai",
        "isthmus.toml:2 hme is no setting; the nearest one is home (docs/settin",
        "isthmus.toml:5 api.proxies is '-1'; it",
        'isthmus.toml:8 relay.chains."eip155:1".budget: network testnet has no ',
        "isthmus.toml:14 page.url is 'dagster.example'; it",
    ]
    assert last == "7 problems in variables and isthmus.toml isthmus.toml"


def test_check_names_key_without_node_as_relay_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'network = "testnet"\ndatabase_url = "postgresql://db.example/isthmus"\n'
    configure(folder, f'{text}[relay.chains."eip155:84532"]\nkms = "module:name"\n', monkeypatch)
    assert main(["config", "check", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "problems": [
            "eip155:84532 has a key and no node: set ISTHMUS_RPC_EIP155_84532 "
            '(chains."eip155:84532".rpc)'
        ],
        "notes": [],
    }


def test_check_reads_no_file_that_the_user_may_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(
        folder,
        'network = "testnet"\ndatabase_url = "postgresql://db.example/isthmus"\n'
        '[chains."eip155:84532"]\nrpc_file = "relay"\nstart = 1\n'
        '[relay.chains."eip155:84532"]\nkey_file = "relay"\n',
        monkeypatch,
    )
    write_secret(folder / "relay", "11" * 32)
    # Root may read every file.
    if os.geteuid() == 0:
        os.seteuid(65534)
    else:
        (folder / "relay").chmod(0)
    try:
        assert main(["config", "check"]) == 0
    finally:
        os.seteuid(os.getuid())
    assert capsys.readouterr().out.splitlines() == [
        f'note: isthmus.toml:4 chains."eip155:84532".rpc_file: {folder}/relay is not checked: this '
        "user may not read it",
        f'note: isthmus.toml:7 relay.chains."eip155:84532".key_file: {folder}/relay is not '
        "checked: this user may not read it",
        "0 problems in variables and isthmus.toml isthmus.toml",
    ]


SHOWN = f"""\
network = "testnet"
database_url = "postgresql://isthmus@db.example:5433/isthmus"

[chains."eip155:84532"]
rpc = ["https://node.example/v2/{SECRET}", "wss://node.example?key={SECRET}"]

[chains."stellar:testnet"]
rpc_file = "nodes"

[api]
url = "https://api.example.com"
token_key_file = "token"
webhook_public_key = "{SECRET}"
"""


def test_show_names_sources_and_no_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(folder, SHOWN, monkeypatch)
    write_secret(folder / "token")
    write_secret(folder / "nodes", f"https://node.example/{SECRET}")
    monkeypatch.setenv("ISTHMUS_STREAMS", "7")
    monkeypatch.setenv("ISTHMUS_RPC_EIP155_80002", "")
    monkeypatch.setenv("ISTHMUS_DAGSTER_URL", f"postgresql+psycopg2://me:{SECRET}@db.example/d")
    # Wrong, and a secret nevertheless.
    monkeypatch.setenv("ISTHMUS_SEP10_KEY", SECRET)
    assert main(["config", "show", "--json"]) == 0
    printed = capsys.readouterr().out
    rows = {
        row["variable"]: (row["key"], row["value"], row["source"]) for row in json.loads(printed)
    }
    assert rows["ISTHMUS_NETWORK"] == ("network", "testnet", "isthmus.toml:1 network")
    assert rows["ISTHMUS_HOME"] == ("home", ".isthmus", "default")
    assert rows["ISTHMUS_STREAMS"] == ("api.streams", "7", "variable ISTHMUS_STREAMS")
    assert rows["DATABASE_URL"][1] == "postgresql://isthmus@db.example:5433/isthmus"
    assert rows["ISTHMUS_DAGSTER_URL"] == (
        "dagster.url",
        "postgresql+psycopg2://me:***@db.example/d",
        "variable ISTHMUS_DAGSTER_URL",
    )
    assert rows["ISTHMUS_RPC_EIP155_84532"] == (
        'chains."eip155:84532".rpc',
        "https://node.example/***,wss://node.example?***",
        'isthmus.toml:5 chains."eip155:84532".rpc',
    )
    assert rows["ISTHMUS_RPC_EIP155_80002"][1:] == ("", "variable ISTHMUS_RPC_EIP155_80002")
    assert rows["ISTHMUS_RPC_STELLAR_TESTNET"][1:] == (
        "***",
        f'file {folder}/nodes (isthmus.toml:8 chains."stellar:testnet".rpc_file)',
    )
    assert rows["ISTHMUS_TOKEN_KEY"] == (
        "api.token_key_file",
        "***",
        f"file {folder}/token (isthmus.toml:12 api.token_key_file)",
    )
    assert rows["ISTHMUS_SEP10_KEY"][1:] == ("***", "variable ISTHMUS_SEP10_KEY")
    assert main(["config", "show"]) == 0
    assert main(["config", "check"]) == 2
    printed += "".join(capsys.readouterr())
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://node.example", "https://node.example"),
        ("https://hunter2@node.example:8545/", "https://***@node.example:8545"),
        ("https://me:hunter2@node.example/a#b", "https://***@node.example/***?***"),
        ("postgresql://me:hunter2@db/isthmus?password=x", "postgresql://me:***@db/isthmus?***"),
        ("hunter2", "***"),
        ("https://[hunter2", "***"),
    ],
)
def test_url_is_shown_without_what_may_be_secret(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@pytest.mark.parametrize("network", ["testnet", "mainnet"])
def test_new_file_passes_once_it_is_filled_in(
    network: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "init", "--network", network]) == 0
    file = folder / "isthmus.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("ISTHMUS_CONFIG", str(file))
    capsys.readouterr()
    assert main(["config", "check"]) == 2
    *problems, _ = capsys.readouterr().out.splitlines()
    assert {problem.partition(" is ")[2] for problem in problems} == {
        "still a placeholder: write its value, or leave the key out"
    }
    assert len(problems) == sum("<" in line for line in assignments(file))

    write_secret(folder / "url", "postgresql://db.example/isthmus")
    text = file.read_text().replace('["<URL of a node>"]', '["https://node.example"]')
    text = text.replace('"<first block to read>"', "7")
    text = text.replace('"<file with postgresql://USER:PASSWORD@HOST:PORT/DATABASE>"', '"url"')
    file.write_text(text)
    assert main(["config", "check"]) == 0
    settings = load_settings(load_configuration())
    assert settings.network.name == network
    assert settings.followed == settings.network.chains


def assignments(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.startswith(("#", "["))]


def test_new_file_of_devnet_passes_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["config", "init", "--network", "devnet", "--file", "dev.toml"]) == 0
    monkeypatch.setenv("ISTHMUS_CONFIG", "dev.toml")
    assert main(["config", "check"]) == 0


def test_commented_defaults_of_a_new_file_change_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "show", "--json"]) == 0
    main(["config", "init", "--network", "devnet"])
    capsys.readouterr()
    usual = values(capsys)
    file = folder / "isthmus.toml"
    lines = [line.removeprefix("#") if line.startswith("#") else line for line in file_lines(file)]
    text = "\n".join(line for line in lines if "<" not in line and not line.startswith(" "))
    assert len(tomllib.loads(text)["api"]) > 10
    file.write_text(text)
    monkeypatch.setenv("ISTHMUS_CONFIG", str(file))
    assert main(["config", "check"]) == 0
    capsys.readouterr()
    chosen = values(capsys)
    # Relative to the file's folder, which is the working directory here.
    assert chosen.pop("ISTHMUS_HOME") == f"{folder}/{usual.pop('ISTHMUS_HOME')}"
    del chosen["ISTHMUS_CONFIG"], usual["ISTHMUS_CONFIG"]
    assert chosen == usual


def values(capsys: pytest.CaptureFixture[str]) -> dict[str, str | None]:
    main(["config", "show", "--json"])
    rows = json.loads(capsys.readouterr().out)
    return {row["variable"]: row["value"] for row in rows}


def file_lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_existing_file_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "isthmus.toml").write_text("mine")
    assert main(["config", "init", "--network", "testnet"]) == 1
    assert (folder / "isthmus.toml").read_text() == "mine"
    assert "is there already" in capsys.readouterr().err
