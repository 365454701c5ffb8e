"""Drill: token and SEP-10 keys are replaced in two processes of the API, one after the other."""

import time
from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine
from stellar_sdk import Keypair

from api.auth.sep10 import sep10_from_settings
from api.auth.tokens import tokens_from_settings
from api.settings import ApiSettings
from devnet.keys import in_files
from indexer.errors import ConfigurationError
from tests.factories.sep10 import (
    PASSPHRASE,
    SERVER,
    WALLET,
    FixedAccounts,
    key,
    make_rules,
    make_sign_in_app,
    sign,
)
from tests.factories.tokens import URL, private_key, private_pem
from warehouse_schema.identifiers import UnixSeconds

NEW = key("next server")
OLD_PEM, NEW_PEM = private_pem(private_key("old")), private_pem(private_key("new"))


def step(signer: Keypair, pem: str, other: Keypair | None, other_pem: str | None) -> ApiSettings:
    """Settings of a process in one step."""
    variables = {
        "ISTHMUS_URL": URL,
        "ISTHMUS_SEP10_KEY": signer.secret,
        "ISTHMUS_SEP10_PUBLIC_KEY_OTHER": other.public_key if other else "",
        "ISTHMUS_TOKEN_KEY": pem,
        "ISTHMUS_TOKEN_KEY_OTHER": other_pem or "",
    }
    with TemporaryDirectory() as folder:
        return ApiSettings.read(in_files(Path(folder), variables))


STEPS = (
    step(SERVER, OLD_PEM, None, None),
    step(SERVER, OLD_PEM, NEW, NEW_PEM),
    step(NEW, NEW_PEM, SERVER, OLD_PEM),
    step(NEW, NEW_PEM, None, None),
)


def process(engine: Engine, settings: ApiSettings) -> FlaskClient:
    app = make_sign_in_app(
        engine,
        FixedAccounts(make_rules()),
        sep10=sep10_from_settings(settings, PASSPHRASE),
        tokens=tokens_from_settings(settings, lambda: UnixSeconds(int(time.time()))),
    )
    return app.test_client()


def challenge(client: FlaskClient) -> str:
    answer = client.get("/auth", query_string={"account": WALLET.public_key}).json
    return sign(answer["transaction"])


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_no_login_and_no_token_is_refused_in_any_step(reader: Engine, rows: Connection) -> None:
    tokens: list[str] = []
    for before, after in pairwise(STEPS):
        if after is STEPS[-1]:
            # It waits until tokens and challenges of the old keys have expired: the last token is
            # of the new one.
            tokens = tokens[-1:]
        # One process is restarted with the next step; the other still runs the one before.
        processes = [process(reader, before), process(reader, after)]
        for asked, answers in product(processes, repeat=2):
            login = answers.post("/auth", json={"transaction": challenge(asked)})
            assert login.status_code == 200
            tokens.append(login.json["token"])
        for client, token in product(processes, tokens):
            assert client.get("/v1/session", headers=bearer(token)).status_code == 200


def test_old_keys_are_refused_after_the_last_step(reader: Engine, rows: Connection) -> None:
    old, new = process(reader, STEPS[0]), process(reader, STEPS[-1])
    login = old.post("/auth", json={"transaction": challenge(old)})
    assert new.get("/v1/session", headers=bearer(login.json["token"])).status_code == 401
    assert new.post("/auth", json={"transaction": challenge(old)}).status_code == 400


def test_other_key_of_sep10_must_be_another_public_key() -> None:
    with pytest.raises(ConfigurationError, match="OTHER is the key of ISTHMUS_SEP10_KEY_FILE"):
        sep10_from_settings(step(SERVER, OLD_PEM, SERVER, None), PASSPHRASE)
    with pytest.raises(ValueError, match=r"must be a public key, G…") as refused:
        ApiSettings.read({"ISTHMUS_SEP10_PUBLIC_KEY_OTHER": NEW.secret})
    assert NEW.secret not in str(refused.value)
