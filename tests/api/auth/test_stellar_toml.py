"""stellar.toml as wallets read it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from stellar_sdk import StrKey
from stellar_sdk.sep.stellar_toml import fetch_stellar_toml
from werkzeug.serving import make_server

from api.auth.stellar_toml import MAX_BYTES, read_statement, stellar_toml
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories.app import make_app
from tests.factories.sep10 import SERVER, FixedAccounts, make_sep10, make_sign_in_app
from tests.factories.tokens import URL

TESTNET, MAINNET = load_network("testnet"), load_network("mainnet")
PATH = "/.well-known/stellar.toml"
ISSUER = TESTNET.stellar.usdc.rpartition(":")[2]
STATEMENT = f"""
ACCOUNTS = ["GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"]

[DOCUMENTATION]
ORG_NAME = "Isthmus \\" Ferry"
ORG_URL = "https://isthmus.test"

[[PRINCIPALS]]
name = "Ada"

[[CURRENCIES]]
code = "USDC"
issuer = "{ISSUER}"
image = "https://isthmus.test/usdc.png"
display_decimals = 4
"""


@pytest.fixture
def client(reader) -> FlaskClient:
    return make_sign_in_app(reader, FixedAccounts()).test_client()


@pytest.fixture
def statement(tmp_path: Path) -> Path:
    path = tmp_path / "operator.toml"
    path.write_text(STATEMENT)
    return path


@pytest.fixture
def served(reader) -> Iterator[str]:
    """`host:port` of a live server."""
    server = make_server("127.0.0.1", 0, make_sign_in_app(reader, FixedAccounts()))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


def read(text: str) -> dict:
    import tomllib

    return tomllib.loads(text)


def test_stellar_sdk_reads_stellar_toml(served) -> None:
    toml = fetch_stellar_toml(served, use_http=True)
    assert toml["NETWORK_PASSPHRASE"] == TESTNET.stellar.passphrase
    assert toml["SIGNING_KEY"] == SERVER.public_key
    assert toml["WEB_AUTH_ENDPOINT"] == f"{URL}/auth"
    assert toml["WEB_AUTH_ENDPOINT"].startswith("https://")
    assert not toml["WEB_AUTH_ENDPOINT"].endswith("/")
    assert toml["ACCOUNTS"] == [SERVER.public_key]
    assert toml["VERSION"] == "2.7.0"


def test_stellar_toml_is_text_for_any_origin(client) -> None:
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert len(answer.data) < MAX_BYTES


def test_stellar_toml_returns_304_if_unchanged(client) -> None:
    answer = client.get(PATH)
    again = client.get(PATH, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert again.headers["Access-Control-Allow-Origin"] == "*"


def test_error_of_stellar_toml_is_for_any_origin(client) -> None:
    answer = client.post(PATH)
    assert answer.status_code == 405
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "error" not in answer.json


@pytest.mark.parametrize(
    ("network", "status"), [(TESTNET, "test"), (MAINNET, "live"), (load_network("devnet"), "test")]
)
def test_every_asset_has_required_members(network, status) -> None:
    currencies = read(stellar_toml(network, None, {}))["CURRENCIES"]
    served = [asset for asset in (network.stellar.usdc, network.stellar.usdt0) if asset]
    assert [f"stellar:{each['code']}:{each['issuer']}" for each in currencies] == served
    for each in currencies:
        assert StrKey.is_valid_ed25519_public_key(each["issuer"])
        assert each["status"] == status
        assert 0 <= each["display_decimals"] <= 7
        assert 0 < len(each["name"]) <= 20
        assert each["desc"]
        assert each["is_asset_anchored"] is True
        assert each["anchor_asset_type"] in ("fiat", "crypto")
        assert each["anchor_asset"]
        # SEP-1: exactly one of the three.
        assert {"is_unlimited"} == {"fixed_number", "max_number", "is_unlimited"} & set(each)


def test_no_web_auth_entry_without_keys(reader) -> None:
    toml = read(make_app(reader).test_client().get(PATH).text)
    assert not {"SIGNING_KEY", "WEB_AUTH_ENDPOINT"} & set(toml)
    assert toml["CURRENCIES"]
    assert toml["DOCUMENTATION"] == {}


def test_operator_entries_are_included(statement) -> None:
    settings = read_statement(statement, TESTNET)
    toml = read(stellar_toml(TESTNET, make_sep10(), settings))
    assert toml["DOCUMENTATION"] == {
        "ORG_NAME": 'Isthmus " Ferry',
        "ORG_URL": "https://isthmus.test",
    }
    assert toml["PRINCIPALS"] == [{"name": "Ada"}]
    assert toml["ACCOUNTS"] == [SERVER.public_key, read(STATEMENT)["ACCOUNTS"][0]]
    (usdc,) = toml["CURRENCIES"]
    assert (usdc["image"], usdc["display_decimals"]) == ("https://isthmus.test/usdc.png", 4)
    assert usdc["anchor_asset"] == "USD"
    assert toml["SIGNING_KEY"] == SERVER.public_key


def test_no_operator_entries_without_file() -> None:
    assert read_statement(None, TESTNET) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ACCOUNTS = [", "ISTHMUS_STELLAR_TOML"),
        ('SIGNING_KEY = "G"', "SIGNING_KEY is not the operator's to say"),
        ('WEB_AUTH_ENDPOINT = "https://evil.test"', "WEB_AUTH_ENDPOINT is not"),
        ('ACCOUNTS = "G"', "ACCOUNTS is not of its kind"),
        ("ACCOUNTS = [7]", "ACCOUNTS is not of its kind"),
        ('DOCUMENTATION = "x"', "DOCUMENTATION is not of its kind"),
        ('CURRENCIES = ["USDC"]', "CURRENCIES is not of its kind"),
        ('[[CURRENCIES]]\ncode = "EURC"\nissuer = "G"', "EURC of G is not served"),
    ],
)
def test_bad_operator_entry_raises(tmp_path, text, message) -> None:
    path = tmp_path / "operator.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_statement(path, TESTNET)


def test_missing_operator_file_raises(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="ISTHMUS_STELLAR_TOML"):
        read_statement(tmp_path / "none.toml", TESTNET)
