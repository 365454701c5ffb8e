from pathlib import Path

from api.auth.sep10 import sep10_from_settings
from api.auth.tokens import tokens_from_settings
from api.settings import load_api_settings
from devnet.evm import dev_account
from devnet.keys import RELAY, RELAY_ACCOUNT, SPONSOR, WEBHOOKS, make_keys, make_relay_keys
from devnet.stellar.accounts import PASSPHRASE, SEP10, address, keypair
from indexer.config.networks import load_network
from relay.settings import load_webhook_poster
from relay.webhooks.signing import encode_public_key
from warehouse_schema.identifiers import UnixSeconds

URL = "http://127.0.0.1:8080"


def test_demo_keys_are_accepted_by_the_api(tmp_path: Path) -> None:
    settings = load_api_settings(make_keys(tmp_path / "keys", URL))
    assert sep10_from_settings(settings, PASSPHRASE).signing_key == address(SEP10)
    assert tokens_from_settings(settings, lambda: UnixSeconds(0)).issuer == URL


def test_relay_has_own_keys_on_both_chains(tmp_path: Path) -> None:
    made = make_relay_keys(tmp_path, load_network("devnet"))
    held = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(made.values()) == sorted(str(path) for path in tmp_path.iterdir())
    assert held == {
        "relay-evm": dev_account(RELAY_ACCOUNT).key.hex(),
        "relay-stellar": keypair(RELAY).secret,
        "relay-sponsor": keypair(SPONSOR).secret,
        "webhooks": keypair(WEBHOOKS).secret,
    }
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_api_publishes_the_relays_webhook_key(tmp_path: Path) -> None:
    published = load_api_settings(make_keys(tmp_path / "api", URL)).webhook_key
    made = make_relay_keys(tmp_path / "relay", load_network("devnet"))
    sender = load_webhook_poster(load_network("devnet"), made)
    assert sender is not None
    assert encode_public_key(sender.key) == published


def test_keys_are_made_once_with_private_file_mode(tmp_path: Path) -> None:
    make_keys(tmp_path, URL)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    make_keys(tmp_path, "http://127.0.0.1:8081")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == made
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
