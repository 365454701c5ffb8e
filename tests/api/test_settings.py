"""Settings of the API: defaults, values, and errors that name the variable."""

from pathlib import Path

import pytest

from api.settings import load_api_settings
from indexer.errors import ConfigurationError

SECRET = __file__
"""A file that can be read."""


@pytest.fixture
def identity(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    return {"ISTHMUS_IDENTITY_APP_ID": "app", "ISTHMUS_IDENTITY_APP_SECRET_FILE": str(file)}


def test_stream_limits_are_configurable() -> None:
    usual = load_api_settings({"ISTHMUS_STREAMS": ""})
    assert (usual.streams, usual.streams_per_address, usual.proxies) == (2_000, 50, 0)
    environment = {
        "ISTHMUS_STREAMS": "0",
        "ISTHMUS_STREAMS_PER_ADDRESS": "7",
        "ISTHMUS_PROXIES": "1",
    }
    chosen = load_api_settings(environment)
    assert (chosen.streams, chosen.streams_per_address, chosen.proxies) == (0, 7, 1)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ISTHMUS_STREAMS": "-1"}, "ISTHMUS_STREAMS is '-1'; it must be a whole number"),
        ({"ISTHMUS_URL": "api.example.com"}, "ISTHMUS_URL is 'api.example.com'; it must be like"),
        ({"ISTHMUS_URL": "https://api.example.com/"}, "with no slash after"),
        ({"ISTHMUS_URL": "ftp://api.example.com"}, "it must be like https"),
        (
            {"ISTHMUS_TOKEN_KEY": "hunter2", "ISTHMUS_URL": "https://api.example"},
            "^ISTHMUS_TOKEN_KEY must not hold the secret: write it into a file that only the "
            "process may read, and set ISTHMUS_TOKEN_KEY_FILE$",
        ),
        ({"ISTHMUS_RELAY_KEY_EIP155_1": "hunter2"}, "ISTHMUS_RELAY_KEY_EIP155_1_FILE$"),
        (
            {"ISTHMUS_IDENTITY_KEY": "x", "ISTHMUS_IDENTITY_KEY_FILE": "y"},
            "ISTHMUS_IDENTITY_KEY and ISTHMUS_IDENTITY_KEY_FILE are both set",
        ),
        ({"ISTHMUS_TOKEN_KEY_FILE": "/none"}, "ISTHMUS_TOKEN_KEY_FILE: /none cannot be read"),
        ({"ISTHMUS_TOKEN_KEY_OTHER_FILE": SECRET}, "KEY_OTHER_FILE is set without ISTHMUS_TOKEN_K"),
        ({"ISTHMUS_TOKEN_KEY_FILE": SECRET}, "ISTHMUS_TOKEN_KEY_FILE needs ISTHMUS_URL"),
        ({"ISTHMUS_TOKEN_SECONDS": "59"}, "SECONDS is '59'; it must be from 60 to 86400"),
        ({"ISTHMUS_TOKEN_SECONDS": "86401"}, "ISTHMUS_TOKEN_SECONDS is '86401'"),
        (
            {"ISTHMUS_IDENTITY_APP_ID": "a"},
            "APP_ID needs ISTHMUS_IDENTITY_APP_SECRET_FILE",
        ),
        ({"ISTHMUS_IDENTITY_APP_SECRET_FILE": SECRET}, "APP_SECRET_FILE is set without"),
        ({"ISTHMUS_IDENTITY_SECONDS": "1h"}, "ISTHMUS_IDENTITY_SECONDS is '1h'"),
        ({"ISTHMUS_TOKEN_KEY_FILE": "/dev/null"}, "ISTHMUS_TOKEN_KEY_FILE: /dev/null is empty"),
    ],
)
def test_bad_setting_error_names_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        load_api_settings(environment)
    assert "hunter2" not in str(refused.value)


def test_secret_is_read_from_file(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("hunter2\n")
    url = {"ISTHMUS_URL": "https://api.example.com"}
    settings = load_api_settings({**url, "ISTHMUS_TOKEN_KEY_FILE": str(file)})
    assert settings.token_key == "hunter2"
    assert "hunter2" not in repr(settings)
    assert load_api_settings({"ISTHMUS_TOKEN_KEY": ""}).token_key is None


@pytest.mark.parametrize(
    ("network", "mode", "is_refused"),
    [
        ("testnet", 0o604, True),
        ("mainnet", 0o644, True),
        ("mainnet", 0o640, False),
        ("devnet", 0o644, False),
    ],
)
def test_secret_that_every_user_may_read_is_refused_off_devnet(
    network: str, mode: int, is_refused: bool, tmp_path: Path
) -> None:
    file = tmp_path / "key.pem"
    file.write_text("hunter2")
    file.chmod(mode)
    environment = {
        "ISTHMUS_NETWORK": network,
        "ISTHMUS_URL": "https://api.example.com",
        "ISTHMUS_TOKEN_KEY_FILE": str(file),
    }
    if not is_refused:
        assert load_api_settings(environment).token_key == "hunter2"
        return
    with pytest.raises(ConfigurationError) as refused:
        load_api_settings(environment)
    assert str(refused.value) == (
        f"ISTHMUS_TOKEN_KEY_FILE: every user of this machine may read {file}; allow it to the "
        "process's user or group alone, such as by chmod 600"
    )


def test_url_is_read_from_setting_only() -> None:
    assert load_api_settings({}).url is None
    url = "https://example.com/isthmus"
    assert load_api_settings({"ISTHMUS_URL": url}).url == url


def test_identity_provider_needs_app_and_secret(identity: dict[str, str]) -> None:
    assert load_api_settings({}).identity_app_id is None
    chosen = load_api_settings(identity)
    assert (chosen.identity_issuer, chosen.identity_url) == ("privy.io", "https://api.privy.io")
    assert (chosen.identity_app_id, chosen.identity_app_secret) == ("app", "hunter2")
    assert (chosen.identity_key, chosen.identity_seconds) == (None, 7200)
    assert "hunter2" not in repr(chosen)


STAND_IN = "http://127.0.0.1:8100"


def test_local_network_accepts_stand_in_provider(identity: dict[str, str]) -> None:
    local = load_api_settings({**identity, "ISTHMUS_IDENTITY_URL": STAND_IN})
    assert local.identity_url == STAND_IN


@pytest.mark.parametrize(
    ("network", "url"),
    [
        ("testnet", STAND_IN),
        ("mainnet", STAND_IN),
        ("devnet", "http://127.0.0.1.evil.test"),
        ("devnet", "http://127.0.0.1@evil.test"),
        ("devnet", "http://api.privy.io"),
        ("mainnet", "https://api.privy.io/"),
        ("mainnet", "https://user:hunter2@api.privy.io"),
        ("mainnet", "https://api.privy.io?key=hunter2"),
        ("mainnet", "https://"),
        ("mainnet", "file:///etc/passwd"),
        ("mainnet", "api.privy.io"),
    ],
)
def test_bad_provider_url_is_refused(network: str, url: str, identity: dict[str, str]) -> None:
    chosen = {**identity, "ISTHMUS_NETWORK": network, "ISTHMUS_IDENTITY_URL": url}
    with pytest.raises(ConfigurationError, match="ISTHMUS_IDENTITY_URL must be like") as refused:
        load_api_settings(chosen)
    assert "hunter2" not in str(refused.value)


def test_webhook_public_key_is_validated() -> None:
    assert load_api_settings({}).webhook_key is None
    key = f"whpk_{'A' * 43}="
    assert load_api_settings({"ISTHMUS_WEBHOOK_PUBLIC_KEY": key}).webhook_key == key
    with pytest.raises(ConfigurationError, match="webhook-key") as refused:
        load_api_settings({"ISTHMUS_WEBHOOK_PUBLIC_KEY": "SAAA"})
    assert "SAAA" not in str(refused.value)


def test_quote_lifetime_defaults_to_five_minutes() -> None:
    assert load_api_settings({}).quote_seconds == 300
    assert load_api_settings({"ISTHMUS_QUOTE_SECONDS": "60"}).quote_seconds == 60
    for seconds in ("9", "3601", "0"):
        with pytest.raises(ConfigurationError, match="ISTHMUS_QUOTE_SECONDS"):
            load_api_settings({"ISTHMUS_QUOTE_SECONDS": seconds})


def test_transfer_lifetime_defaults_to_half_an_hour() -> None:
    assert load_api_settings({}).transfer_seconds == 1800
    assert load_api_settings({"ISTHMUS_TRANSFER_SECONDS": "60"}).transfer_seconds == 60
    for seconds in ("59", "86401", "0", "1.5"):
        with pytest.raises(ConfigurationError, match="ISTHMUS_TRANSFER_SECONDS"):
            load_api_settings({"ISTHMUS_TRANSFER_SECONDS": seconds})


def test_origins_default_to_all() -> None:
    assert load_api_settings({}).origins == {"*"}
    named = load_api_settings(
        {"ISTHMUS_ORIGINS": "https://App.example.com, http://127.0.0.1:8080,"}
    )
    assert named.origins == {"https://app.example.com", "http://127.0.0.1:8080"}


@pytest.mark.parametrize(
    "text", ["example.com", "https://a.example/", "https://*.example.com", "null", "https://a b"]
)
def test_bad_origin_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="ISTHMUS_ORIGINS"):
        load_api_settings({"ISTHMUS_ORIGINS": text})
