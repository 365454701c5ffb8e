"""SEP-10 settings: defaults, and errors that name the variable."""

from pathlib import Path

import pytest

from api.auth.sep10 import sep10_from_settings
from api.settings import load_api_settings
from devnet.keys import in_files
from indexer.errors import ConfigurationError
from tests.factories.sep10 import PASSPHRASE, SERVER
from tests.factories.tokens import private_key, private_pem

ENVIRONMENT = {
    "ISTHMUS_URL": "https://api.isthmus.test",
    "ISTHMUS_TOKEN_KEY": private_pem(private_key("ours")),
    "ISTHMUS_SEP10_KEY": SERVER.secret,
}


@pytest.fixture
def of(tmp_path: Path):
    """SEP-10 of the environment with changes."""

    def make(**changes: str):
        variables = in_files(tmp_path, ENVIRONMENT | changes)
        return sep10_from_settings(load_api_settings(variables), PASSPHRASE)

    return make


def test_no_sep10_without_key() -> None:
    assert sep10_from_settings(load_api_settings({}), PASSPHRASE) is None


def test_domains_default_to_our_url(of) -> None:
    usual = of()
    assert usual.signing_key == SERVER.public_key
    assert (usual.home_domain, usual.web_auth_domain) == 2 * ("api.isthmus.test",)
    assert usual.endpoint == "https://api.isthmus.test/auth"
    chosen = of(ISTHMUS_HOME_DOMAIN="isthmus.test", ISTHMUS_WEB_AUTH_DOMAIN="api.isthmus.test:8443")
    assert chosen.home_domain == "isthmus.test"
    assert chosen.web_auth_domain == "api.isthmus.test:8443"


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080"])
def test_loopback_url_may_be_http(of, host) -> None:
    assert of(ISTHMUS_URL=f"http://{host}").web_auth_domain == host


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ISTHMUS_SEP10_KEY": SERVER.public_key}, "SEP10_KEY_FILE is no secret seed"),
        (
            {"ISTHMUS_SEP10_KEY": SERVER.secret[:-1] + "A"},
            "SEP10_KEY_FILE is no secret seed",
        ),
        ({"ISTHMUS_TOKEN_KEY": ""}, "needs ISTHMUS_TOKEN_KEY_FILE and ISTHMUS_URL"),
        ({"ISTHMUS_URL": ""}, "needs ISTHMUS_TOKEN_KEY_FILE and ISTHMUS_URL"),
        ({"ISTHMUS_NETWORK": "testnet"}, "SEP10_KEY_FILE needs ISTHMUS_RPC_STELLAR_TESTNET"),
        ({"ISTHMUS_URL": "http://api.isthmus.test"}, "https alone"),
        ({"ISTHMUS_HOME_DOMAIN": "https://isthmus.test"}, "ISTHMUS_HOME_DOMAIN is"),
        ({"ISTHMUS_HOME_DOMAIN": "a" * 60}, "at most 59 characters"),
        ({"ISTHMUS_WEB_AUTH_DOMAIN": "a" * 65}, "at most 64 characters"),
        ({"ISTHMUS_WEB_AUTH_DOMAIN": "Isthmus.test"}, "in small letters"),
    ],
)
def test_bad_sep10_setting_is_named(of, changes, message) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        of(**changes)
    assert SERVER.secret[:-1] not in str(refused.value)
    assert refused.value.__cause__ is None


def test_repr_contains_no_secret(of, tmp_path: Path) -> None:
    settings = load_api_settings(in_files(tmp_path, ENVIRONMENT))
    assert SERVER.secret not in repr(settings)
    assert SERVER.secret not in repr(of())


def test_longest_domains_fit_into_a_challenge(of) -> None:
    sep10 = of(ISTHMUS_HOME_DOMAIN="h" * 59, ISTHMUS_WEB_AUTH_DOMAIN="w" * 64)
    assert sep10.challenge(SERVER.public_key)


def test_loopback_names_are_home_domains(of) -> None:
    for url in ("http://127.0.0.1:8080", "http://localhost:8080"):
        local = of(ISTHMUS_URL=url, ISTHMUS_HOME_DOMAIN="", ISTHMUS_WEB_AUTH_DOMAIN="")
        assert set(local.home_domains) == {"127.0.0.1:8080", "localhost:8080"}
    assert of().home_domains == ("api.isthmus.test",)
