from pathlib import Path

from api.auth.sep10 import sep10_of
from api.auth.tokens import tokens_of
from api.settings import load_api_settings
from indexer.devnet.keys import make_keys
from indexer.devnet.stellar.accounts import PASSPHRASE, SEP10, address
from warehouse_schema.identifiers import UnixSeconds

URL = "http://127.0.0.1:8080"


def test_the_demos_keys_are_keys_that_the_api_takes(tmp_path: Path) -> None:
    settings = load_api_settings(make_keys(tmp_path / "keys", URL))
    assert sep10_of(settings, PASSPHRASE).signing_key == address(SEP10)
    assert tokens_of(settings, lambda: UnixSeconds(0)).issuer == URL


def test_keys_are_made_once_and_nobody_else_reads_them(tmp_path: Path) -> None:
    make_keys(tmp_path, URL)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    make_keys(tmp_path, "http://127.0.0.1:8081")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == made
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
