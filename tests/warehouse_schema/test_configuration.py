"""isthmus.toml: its keys as variables, under the environment's; problems with their places."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from api.settings import load_api_settings
from indexer.cli.main import main
from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError
from relay.settings import RelayVariables
from warehouse_schema.configuration import Configuration, load_configuration
from warehouse_schema.known_variables import known_variables
from warehouse_schema.location import LocationVariables
from warehouse_schema.toml_file import lines_of

GOOD = """\
# Test network.
network = "testnet"
home = "state"
database_url = "postgresql://db.example/isthmus"

[chains."eip155:84532"]
rpc = [
    "https://a.example",  # the first
    "wss://a.example",
]
start = 20000000
log_proof = "receipts"

[chains."stellar:testnet"]
rpc = []

[api]
streams = 7
origins = ["https://app.example.com", "https://www.example.com"]

[relay.chains."eip155:84532"]
budget = 50_000_000_000_000_000
key_file = "keys/relay"

[relay.sponsor."stellar:testnet"]
min_deposit = 1
"""


def configure(folder: Path, text: str, **variables: str) -> Configuration:
    file = folder / "isthmus.toml"
    file.write_text(text)
    return load_configuration({"ISTHMUS_CONFIG": str(file), **variables})


def test_keys_become_variables(tmp_path: Path) -> None:
    assert configure(tmp_path, GOOD) == {
        "ISTHMUS_CONFIG": str(tmp_path / "isthmus.toml"),
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_HOME": str(tmp_path / "state"),
        "DATABASE_URL": "postgresql://db.example/isthmus",
        "ISTHMUS_RPC_EIP155_84532": "https://a.example,wss://a.example",
        "ISTHMUS_START_EIP155_84532": "20000000",
        "ISTHMUS_LOG_PROOF_EIP155_84532": "receipts",
        "ISTHMUS_RPC_STELLAR_TESTNET": "",
        "ISTHMUS_STREAMS": "7",
        "ISTHMUS_ORIGINS": "https://app.example.com,https://www.example.com",
        "ISTHMUS_RELAY_BUDGET_EIP155_84532": "50000000000000000",
        "ISTHMUS_RELAY_KEY_EIP155_84532_FILE": str(tmp_path / "keys" / "relay"),
        "ISTHMUS_RELAY_SPONSOR_MIN_DEPOSIT_STELLAR_TESTNET": "1",
    }


def test_models_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "relay").write_text("11" * 32)
    (tmp_path / "keys" / "relay").chmod(0o600)
    given = configure(tmp_path, GOOD)
    settings = load_settings(given)
    assert [chain.id for chain in settings.followed] == ["eip155:84532"]
    assert settings.home == tmp_path / "state"
    assert load_api_settings(given).streams == 7
    relay = RelayVariables.read(given)
    assert relay.budget == {"EIP155_84532": 5 * 10**16}
    assert relay.key == {"EIP155_84532": "11" * 32}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, "postgresql://db.example/isthmus", id="file"),
        pytest.param({"DATABASE_URL": "postgresql://b/c"}, "postgresql://b/c", id="variable"),
        pytest.param({"DATABASE_URL": ""}, "postgresql://db.example/isthmus", id="empty_variable"),
        pytest.param({"DATABASE_URL_FILE": "url"}, "postgresql://d/e", id="file_variable"),
    ],
)
def test_environment_wins_over_file(
    variables: Mapping[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "url").write_text("postgresql://d/e\n")
    given = configure(tmp_path, GOOD, **variables)
    assert LocationVariables.read(given).database_url == expected


@pytest.mark.parametrize(
    ("lake", "expected"),
    [
        pytest.param("lake", "{folder}/lake", id="relative"),
        pytest.param("/data/lake", "/data/lake", id="absolute"),
        pytest.param("s3://lake/pubnet?region=x", "s3://lake/pubnet?region=x", id="url"),
    ],
)
def test_lake_is_a_folder_beside_the_file_or_a_url(
    lake: str, expected: str, tmp_path: Path
) -> None:
    given = configure(tmp_path, f'network = "devnet"\n[chains."stellar:devnet"]\nlake = "{lake}"\n')
    assert load_settings(given).lakes == {"stellar:devnet": expected.format(folder=tmp_path)}


def test_empty_nodes_of_the_environment_win_over_file(tmp_path: Path) -> None:
    assert load_settings(configure(tmp_path, GOOD, ISTHMUS_RPC_EIP155_84532="")).followed == ()


def test_nodes_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("https://a.example/KEY\nhttps://b.example/KEY\n")
    text = 'network = "testnet"\n[chains."eip155:84532"]\nstart = 1\nrpc_file = "nodes"\n'
    settings = load_settings(configure(tmp_path, text), needs_database=False)
    assert settings.nodes[settings.followed[0].id] == (
        "https://a.example/KEY",
        "https://b.example/KEY",
    )


ALL_AT_ONCE = """\
netwrk = "testnet"
home = 5

[chains."eip155:84532"]
rpc = "https://a.example"
strat = 5
start = "5"

[chains."base"]
start = 1

[chains."stellar:testnet"]
lake = ""
rpc = ["https://user:hunter2@a.example"]

[api]
token_key = "hunter2"
streams = true
origins = []
proxies = -1

[relay.chains."eip155:84532"]
budget = 5e16
key = '''
hunter2
'''

[web]
"""


def test_all_problems_of_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    given = configure(tmp_path, ALL_AT_ONCE, ISTHMUS_STREEMS="5")
    with pytest.raises(ConfigurationError) as refused:
        load_api_settings(given)
    advice = "write it into a file that only the process may read, and set"
    near = "is no setting; the nearest one is"
    assert given.explain(str(refused.value)).splitlines() == [
        "17 settings are wrong:",
        "  isthmus.toml:20 api.proxies is '-1'; it must be a whole number",
        f"  ISTHMUS_STREEMS {near} ISTHMUS_STREAMS (api.streams) (docs/settings.md)",
        "  ISTHMUS_TOKEN_KEY_FILE (api.token_key_file) needs ISTHMUS_URL (api.url): a token names "
        "its issuer",
        f"  isthmus.toml:1 netwrk {near} network (docs/settings.md)",
        "  isthmus.toml:2 home must be a path in quotes",
        '  isthmus.toml:5 chains."eip155:84532".rpc must be a list of texts, such as ["…"], with '
        "one or more",
        f'  isthmus.toml:6 chains."eip155:84532".strat {near} chains."eip155:84532".start '
        "(docs/settings.md)",
        '  isthmus.toml:7 chains."eip155:84532".start must be an integer, without quotes',
        '  isthmus.toml:10 chains.base.start has "base", which is no chain id such as eip155:1 or '
        "stellar:pubnet",
        '  isthmus.toml:13 chains."stellar:testnet".lake must be a path in quotes',
        '  isthmus.toml:14 chains."stellar:testnet".rpc must not hold a password: '
        f'{advice} chains."stellar:testnet".rpc_file',
        f"  isthmus.toml:17 api.token_key must not hold the secret: {advice} api.token_key_file",
        "  isthmus.toml:18 api.streams must be an integer, without quotes",
        '  isthmus.toml:19 api.origins must be a list of texts, such as ["…"], with one or more',
        '  isthmus.toml:23 relay.chains."eip155:84532".budget must be an integer, without quotes',
        '  isthmus.toml:24 relay.chains."eip155:84532".key must not hold the secret: '
        f'{advice} relay.chains."eip155:84532".key_file',
        f"  isthmus.toml:28 web {near} webhooks.kms (docs/settings.md)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            'network = "devnet"\n[api]\ntoken_key_file = "key"\n',
            "isthmus.toml:3 api.token_key_file needs ISTHMUS_URL (api.url): a token names its "
            "issuer",
            id="missing",
        ),
        pytest.param(
            'database_url = "postgresql://a/b"\ndatabase_url_file = "key"\n',
            "isthmus.toml:2 database_url_file and isthmus.toml:1 database_url are both set; leave "
            "one of them out",
            id="contradictory",
        ),
        pytest.param(
            '[api]\nurl = "api.example"\n',
            "isthmus.toml:2 api.url is 'api.example'; it must be like https://api.example.com, "
            "with no slash after",
            id="wrong_text",
        ),
    ],
)
def test_problem_names_key_place_and_fix(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2")
    given = configure(tmp_path, text)
    with pytest.raises(ConfigurationError) as refused:
        load_api_settings(given)
    assert given.explain(str(refused.value)) == message


def test_variable_of_any_chain_gets_its_key(tmp_path: Path) -> None:
    given = configure(tmp_path, GOOD)
    explained = given.explain("Name a node in ISTHMUS_RPC_<CHAIN>.")
    assert explained == "Name a node in ISTHMUS_RPC_<CHAIN> (chains.<CHAIN>.rpc)."
    assert load_configuration({}).explain("ISTHMUS_RPC_<CHAIN>") == "ISTHMUS_RPC_<CHAIN>"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="missing"),
        pytest.param(b"\xff", "is no text in UTF-8", id="binary"),
        pytest.param(
            b"a = 1\nb = \n", "is not TOML: Invalid value (at line 2, column 5)", id="syntax"
        ),
    ],
)
def test_unreadable_file_is_the_only_problem(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "isthmus.toml"
    if content is not None:
        file.write_bytes(content)
    given = load_configuration({"ISTHMUS_CONFIG": str(file), "ISTHMUS_STREEMS": "1"})
    with pytest.raises(ConfigurationError) as refused:
        load_settings(given)
    assert str(refused.value) == f"ISTHMUS_CONFIG: {file} {reason}"


def test_file_that_every_user_may_write_is_refused(tmp_path: Path) -> None:
    configure(tmp_path, GOOD)
    file = tmp_path / "isthmus.toml"
    file.chmod(0o646)
    with pytest.raises(ConfigurationError) as refused:
        load_settings(load_configuration({"ISTHMUS_CONFIG": str(file)}))
    assert str(refused.value) == (
        f"ISTHMUS_CONFIG: every user of this machine may write {file}; take that right away, such "
        "as by chmod 640"
    )


def test_examples_of_the_documents_are_right(tmp_path: Path) -> None:
    examples = [
        block
        for path in [*Path("docs").rglob("*.md"), *Path("pipelines").glob("*.md")]
        for block in re.findall(r"```toml\n(# isthmus\.toml.*?)```", path.read_text(), re.S)
    ]
    assert len(examples) >= 4
    found = [configure(tmp_path, text).problems for text in examples]
    assert [problems for problems in found if problems] == []


def test_every_variable_has_a_key_of_its_own() -> None:
    keys = [each.key for each in known_variables() if each.key is not None]
    assert len(set(keys)) == len(keys)
    without = [each.name for each in known_variables() if each.key is None]
    assert without == ["ISTHMUS_CONFIG", "PROMETHEUS_MULTIPROC_DIR"]


def test_lines_are_those_where_keys_stand() -> None:
    text = """
# c
a = 1
b = '''
x = 1

# y
'''

[t]
# d
u = [
 1,

 2]
v.w = {p = 1, q = 2}"""
    assert lines_of(text) == {
        ("a",): 3,
        ("b",): 4,
        ("t", "u"): 12,
        ("t", "v", "w", "p"): 16,
        ("t", "v", "w", "q"): 16,
        ("t",): 10,
    }


@pytest.mark.parametrize(
    "arguments", [("migrate",), ("database", "status"), ("status",), ("api",), ("webhooks",)]
)
def test_commands_name_the_places_of_the_file(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "isthmus.toml"
    file.write_text('\nnetwork = "moonnet"\n')
    monkeypatch.setenv("ISTHMUS_CONFIG", str(file))
    assert main(arguments) == 2
    assert "isthmus.toml:2 network is 'moonnet'; it must be one of" in capsys.readouterr().err
