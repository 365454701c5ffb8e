"""Wallet SDKs sign in against a live server."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import jwt
from stellar_sdk import TransactionEnvelope
from stellar_sdk.sep.stellar_toml import fetch_stellar_toml
from stellar_sdk.sep.stellar_web_authentication import read_challenge_transaction

from tests.factories.sep10 import WALLET

WALLETS = Path(__file__).parent / "wallets"


def run(script: str, home: str) -> subprocess.CompletedProcess[str]:
    # axios reads proxies from the environment.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        ["node", str(WALLETS / script), home, WALLET.secret],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_is_token_of_wallet(token: str) -> None:
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["sub"] == WALLET.public_key


def test_python_stellar_sdk_signs_in(serve) -> None:
    with serve("host:port") as home, httpx.Client(trust_env=False, timeout=60) as http:
        toml = fetch_stellar_toml(home, use_http=True)
        given = http.get(
            toml["WEB_AUTH_ENDPOINT"],
            params={"account": WALLET.public_key, "home_domain": home},
        ).json()
        read = read_challenge_transaction(
            given["transaction"], toml["SIGNING_KEY"], home, home, toml["NETWORK_PASSPHRASE"]
        )
        assert read.client_account_id == WALLET.public_key
        envelope = TransactionEnvelope.from_xdr(given["transaction"], given["network_passphrase"])
        envelope.sign(WALLET)
        answer = http.post(toml["WEB_AUTH_ENDPOINT"], json={"transaction": envelope.to_xdr()})
    assert answer.status_code == 200, answer.text
    assert_is_token_of_wallet(answer.json()["token"])


def test_npm_stellar_sdk_signs_in(serve) -> None:
    with serve("host:port") as home:
        done = run("stellar-sdk.mjs", home)
    assert done.returncode == 0, done.stderr
    assert_is_token_of_wallet(json.loads(done.stdout)["token"])


def test_npm_wallet_sdk_signs_in_with_bare_host(serve) -> None:
    with serve("host") as home:
        done = run("wallet-sdk.mjs", home)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert_is_token_of_wallet(output["token"])
    assert output["account"] == WALLET.public_key
    assert output["currencies"][0]["code"] == "USDC"


def test_npm_wallet_sdk_refuses_host_with_port(serve) -> None:
    # Why `ISTHMUS_WEB_AUTH_DOMAIN` can be set; on the usual ports all clients agree.
    with serve("host:port") as home:
        done = run("wallet-sdk.mjs", home)
    assert done.returncode != 0
    assert "'web_auth_domain' operation value does not match 127.0.0.1" in done.stderr


def test_npm_wallet_sdk_signs_in_at_localhost(serve) -> None:
    with serve("host") as home:
        done = run("wallet-sdk.mjs", home.replace("127.0.0.1", "localhost"))
    assert done.returncode == 0, done.stderr
    assert_is_token_of_wallet(json.loads(done.stdout)["token"])
