"""`/v1/session`, and authentication of all owner endpoints."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, select

from tests.api.auth.test_tokens import FORGERIES
from tests.factories.app import NOW, make_app
from tests.factories.tokens import ACCOUNT, URL, claims, make_tokens, private_key, sign
from warehouse_schema.access import revoked_tokens

PATH = "/v1/session"


def bearer(token, scheme="Bearer"):
    return {"Authorization": f"{scheme} {token}"}


def issue(jti="a", **more):
    return make_tokens(**more).issue(ACCOUNT, jti=jti)


def assert_refused(response):
    assert response.status_code == 401
    assert response.json == {
        "message": "a valid bearer token is needed",
        "code": "UNAUTHORIZED",
    }
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_token_returns_its_account(signed_in):
    answer = signed_in.get(PATH, headers=bearer(issue(lifetime=3600)))
    assert answer.status_code == 200
    assert answer.json == {
        "account": ACCOUNT,
        "issuer": URL,
        "expires_at": datetime.fromtimestamp(NOW + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_bearer_scheme_is_case_insensitive(signed_in, scheme):
    assert signed_in.get(PATH, headers=bearer(issue(), scheme)).status_code == 200


BAD_AUTHORIZATION_HEADER_RETURNS_401 = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    "{token}",
    "Token {token}",
    "Basic {token}",
    "Bearer{token}",
    "Bearer\t{token}",
    "Bearer {token} ",
    "Bearer {token} {token}",
    # A header that was sent twice, as servers hand it on.
    "Bearer {token},Bearer {token}",
    "Bearer {token}, Bearer {token}",
    "Bearer {token}" + " " * 8192,
    "Bearer " + "x" * 8192,
    "Bearer " + "x." * 4000,
    "Bearer é",
]


def test_bad_authorization_header_returns_401(signed_in, subtests):
    for header in BAD_AUTHORIZATION_HEADER_RETURNS_401:
        with subtests.test(header=header):
            headers = {} if header is None else {"Authorization": header.format(token=issue())}
            environ = {f"HTTP_{name.upper()}": text for name, text in headers.items()}
            assert_refused(signed_in.get(PATH, environ_base=environ))


def test_forgeries_get_the_same_401(signed_in):
    for token in FORGERIES.values():
        environ = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
        assert_refused(signed_in.get(PATH, environ_base=environ))


def test_refusal_reason_is_only_logged(signed_in, caplog):
    token = sign(claims(), private_key("other"), kid="other")
    with caplog.at_level("INFO", "api"):
        assert_refused(signed_in.get(PATH, headers=bearer(token)))
    assert "token refused reason='signed with none of our keys'" in caplog.text
    assert not any(part in caplog.text for part in token.split("."))


def test_owner_responses_are_no_store(signed_in):
    for headers in (bearer(issue()), {}):
        assert signed_in.get(PATH, headers=headers).headers["Cache-Control"] == "no-store"


def test_token_without_configured_keys_returns_401(reader):
    assert_refused(make_app(reader).test_client().get(PATH, headers=bearer(issue())))


def test_revoked_token_is_refused_by_every_process(signed_in, reader, monkeypatch):
    monkeypatch.setattr("api.auth.revocation.FRESH_SECONDS", 0)
    elsewhere = make_app(reader, tokens=make_tokens()).test_client()
    token = issue()
    assert elsewhere.get(PATH, headers=bearer(token)).status_code == 200
    given_up = signed_in.delete(PATH, headers=bearer(token))
    assert (given_up.status_code, given_up.json) == (200, {"revoked": True})
    for client in (signed_in, elsewhere):
        assert_refused(client.get(PATH, headers=bearer(token)))
        assert_refused(client.delete(PATH, headers=bearer(token)))


def test_revocation_keeps_other_tokens_of_account(signed_in):
    signed_in.delete(PATH, headers=bearer(issue("a")))
    assert signed_in.get(PATH, headers=bearer(issue("b"))).status_code == 200


@pytest.mark.parametrize(
    ("ahead", "kept"),
    [(0, {"recent", "new"}), (86_400, {"recent", "new"}), (-86_400, {"old", "recent", "new"})],
    ids=["clocks agree", "ours is ahead", "Postgres's is ahead"],
)
def test_revocation_is_deleted_an_hour_after_expiry(reader, rows, ahead, kept):
    now = datetime.now(UTC)
    for jti, age in (("old", 61), ("recent", 59)):
        row = {"jti": jti, "expires_at": now - timedelta(minutes=age)}
        rows.execute(revoked_tokens.insert().values(row))
    ours = int(now.timestamp()) + ahead
    tokens = make_tokens(now=ours)
    client = make_app(reader, tokens=tokens, now=ours).test_client()
    client.delete(PATH, headers=bearer(tokens.issue(ACCOUNT, jti="new")))
    # Others' tests give up tokens in this database as well.
    found = set(rows.execute(select(revoked_tokens.c.jti)).scalars())
    assert found & {"old", "recent", "new"} == kept


def test_token_without_database_returns_503():
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    client = make_app(engine, tokens=make_tokens()).test_client()
    answer = client.get(PATH, headers=bearer(issue()))
    assert (answer.status_code, answer.json["code"]) == (503, "DATABASE_UNAVAILABLE")
    # What is no token of ours costs no question.
    assert_refused(client.get(PATH, headers=bearer(sign(claims(), private_key("other")))))
    engine.dispose()
