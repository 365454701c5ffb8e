"""SEP-10 sign-in: valid challenges and signatures, and every refused one."""

import base64
import string
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, func, select, text
from sqlalchemy import engine as alchemy
from stellar_sdk import (
    Asset,
    FeeBumpTransaction,
    Keypair,
    MuxedAccount,
    Payment,
    StrKey,
    TransactionEnvelope,
    xdr,
)
from stellar_sdk.operation import BumpSequence, ManageData
from stellar_sdk.sep import stellar_web_authentication as library

from api import concurrency
from api.auth import challenges
from api.auth.accounts import LimitedAccounts
from api.auth.sep10 import MAX_CHALLENGE_LENGTH, WINDOW_SECONDS, ChallengeRefused
from indexer.errors import NodeUnavailable, WrongChain
from tests.factories.sep10 import (
    DOMAIN,
    HOME,
    PASSPHRASE,
    SERVER,
    WALLET,
    FixedAccounts,
    first,
    forge,
    key,
    make_rules,
    make_sep10,
    make_sign_in_app,
    nonce,
    second,
    sign,
)
from tests.factories.tokens import URL
from tests.indexer.test_addresses import MUXED as MUXED_CONTRACT
from warehouse_schema.access import used_challenges
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import StellarAddress

ALICE = key("alice")


@pytest.fixture
def ledger() -> FixedAccounts:
    """A ledger on which the wallet has an account like any new one."""
    return FixedAccounts(make_rules())


@pytest.fixture
def client(rows, reader, ledger) -> FlaskClient:
    return make_sign_in_app(reader, LimitedAccounts(ledger)).test_client()


def challenge_of(client: FlaskClient, account: Keypair = WALLET, **query: str) -> str:
    answer = client.get("/auth", query_string={"account": account.public_key, **query})
    assert answer.status_code == 200, answer.json
    return answer.json["transaction"]


def post(client: FlaskClient, transaction: object):
    return client.post("/auth", json={"transaction": transaction})


def assert_refused(answer, status: int = 400, code: str = "BAD_CHALLENGE") -> None:
    assert (answer.status_code, answer.json.get("code")) == (status, code), answer.json
    assert answer.json["error"] == answer.json["message"] != ""
    assert answer.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert "token" not in answer.json


def assert_signed_in(answer, account: Keypair = WALLET) -> None:
    assert answer.status_code == 200, answer.json
    assert set(answer.json) == {"token"}
    claims = jwt.decode(answer.json["token"], options={"verify_signature": False})
    assert claims["sub"] == account.public_key


# The challenge


def test_challenge_follows_sep10(client):
    before = int(time.time())
    answer = client.get("/auth", query_string={"account": WALLET.public_key})
    assert answer.json["network_passphrase"] == PASSPHRASE
    envelope = TransactionEnvelope.from_xdr(answer.json["transaction"], PASSPHRASE)
    transaction = envelope.transaction
    assert (transaction.source.account_id, transaction.sequence) == (SERVER.public_key, 0)
    bounds = transaction.preconditions.time_bounds
    assert before <= bounds.min_time <= time.time()
    assert bounds.max_time - bounds.min_time == WINDOW_SECONDS
    op, web_auth = transaction.operations
    assert (op.source.account_id, op.data_name) == (WALLET.public_key, f"{HOME} auth")
    assert len(op.data_value) == 64
    assert len(base64.b64decode(op.data_value)) == 48
    assert (web_auth.source.account_id, web_auth.data_name) == (
        SERVER.public_key,
        "web_auth_domain",
    )
    assert web_auth.data_value == DOMAIN.encode()
    (signature,) = envelope.signatures
    SERVER.verify(envelope.hash(), signature.signature)


def test_challenges_differ(client) -> None:
    assert len({challenge_of(client) for _ in range(20)}) == 20


def test_challenge_writes_no_row(client, owner) -> None:
    challenge_of(client)
    with owner.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(used_challenges)) == 0


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "BAD_ADDRESS"),
        ({"account": ""}, "BAD_ADDRESS"),
        ({"account": "nonsense"}, "BAD_ADDRESS"),
        ({"account": WALLET.public_key.lower()}, "BAD_ADDRESS"),
        ({"account": WALLET.public_key + " "}, "BAD_ADDRESS"),
        ({"account": WALLET.public_key[:-1] + "\n"}, "BAD_ADDRESS"),
        ({"account": WALLET.secret}, "BAD_ADDRESS"),
        ({"account": MuxedAccount(WALLET.public_key, 7).account_muxed}, "BAD_ADDRESS"),
        ({"account": MUXED_CONTRACT}, "BAD_ADDRESS"),
        ({"account": StrKey.encode_contract(b"c" * 32)}, "BAD_ADDRESS"),
        ({"account": f"{WALLET.public_key}:7"}, "BAD_ADDRESS"),
        ({"account": [WALLET.public_key, ALICE.public_key]}, "REPEATED_PARAMETER"),
        ({"account": WALLET.public_key, "memo": "7"}, "BAD_MEMO"),
        ({"account": WALLET.public_key, "memo": "0"}, "BAD_MEMO"),
        ({"account": WALLET.public_key, "home_domain": "evil.test"}, "BAD_HOME_DOMAIN"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else value,
)
def test_challenge_for_bad_account_returns_400(client, query, code) -> None:
    assert_refused(client.get("/auth", query_string=query), 400, code)


def test_seed_as_account_is_not_quoted(client) -> None:
    answer = client.get("/auth", query_string={"account": WALLET.secret})
    assert WALLET.secret not in answer.get_data(as_text=True)


def test_home_domain_parameter_is_accepted(client) -> None:
    challenge_of(client, home_domain=HOME)


def test_client_domain_is_ignored(client) -> None:
    # The suite refuses every connection beyond this machine.
    given = challenge_of(client, client_domain="evil.test")
    envelope = TransactionEnvelope.from_xdr(given, PASSPHRASE)
    assert len(envelope.transaction.operations) == 2


def test_host_header_is_not_in_challenge(client) -> None:
    answer = client.get(
        "/auth",
        query_string={"account": WALLET.public_key},
        headers={"Host": "evil.test", "X-Forwarded-Host": "evil.test"},
    )
    assert b"evil.test" not in base64.b64decode(answer.json["transaction"])


# The ways in


def test_signed_challenge_returns_token(client) -> None:
    given = challenge_of(client)
    answer = post(client, sign(given))
    assert_signed_in(answer)
    claims = jwt.decode(answer.json["token"], options={"verify_signature": False})
    envelope = TransactionEnvelope.from_xdr(given, PASSPHRASE)
    assert claims["jti"] == envelope.hash_hex()
    assert (claims["iss"], claims["aud"]) == (URL, URL)
    assert claims["iat"] < claims["exp"]


def test_form_body_is_accepted(client) -> None:
    transaction = sign(challenge_of(client))
    assert_signed_in(client.post("/auth", data={"transaction": transaction}))


def test_account_not_on_ledger_signs_with_its_key(client, ledger) -> None:
    ledger.rules.clear()
    assert_signed_in(post(client, sign(challenge_of(client))))


def test_base64_with_line_breaks_is_accepted(client) -> None:
    signed = sign(challenge_of(client))
    wrapped = "\n".join(signed[i : i + 64] for i in range(0, len(signed), 64))
    assert_signed_in(post(client, wrapped))


def test_other_signer_than_master_key_is_accepted(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=5, alice=5)
    assert_signed_in(post(client, sign(challenge_of(client), ALICE)))


def test_signers_reach_medium_threshold_together(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=3, alice=1, bob=1)
    signed = sign(challenge_of(client), WALLET, ALICE, key("bob"))
    assert_signed_in(post(client, signed))


def test_twenty_signers_are_accepted(client, ledger) -> None:
    names: dict[str, Any] = {f"signer{number}": 1 for number in range(19)}
    ledger.rules[WALLET.public_key] = make_rules(medium=19, master=0, **names)
    assert_signed_in(post(client, sign(challenge_of(client), *map(key, names))))


# Bodies that hold no challenge


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"json": {}}, 400, "BAD_BODY"),
        ({"json": {"transaction": None}}, 400, "BAD_BODY"),
        ({"json": {"transaction": 7}}, 400, "BAD_BODY"),
        ({"json": {"transaction": ["AAAA"]}}, 400, "BAD_BODY"),
        ({"json": {"transaction": "AAAA", "more": 1}}, 400, "BAD_BODY"),
        ({"json": "AAAA"}, 400, "BAD_BODY"),
        ({"data": b"{", "content_type": "application/json"}, 400, "BAD_BODY"),
        ({"data": b"[" * 10_000, "content_type": "application/json"}, 400, "BAD_BODY"),
        ({"data": {}, "content_type": "application/x-www-form-urlencoded"}, 400, "BAD_BODY"),
        ({"data": b"AAAA", "content_type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({}, 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_body_without_transaction_returns_400(client, body, status, code) -> None:
    assert_refused(client.post("/auth", **body), status, code)


@pytest.mark.parametrize(
    "nonsense",
    ["", "!", "AAAA", "null", "A" * 100, "é", "\ud800".encode("utf-8", "replace").decode()],
)
def test_bad_xdr_is_refused(client, ledger, nonsense) -> None:
    assert_refused(post(client, nonsense))
    assert ledger.requests == []


def test_trailing_bytes_are_refused(client) -> None:
    raw = base64.b64decode(sign(challenge_of(client)))
    assert_refused(post(client, base64.b64encode(raw + b"\0" * 4).decode()))


def test_truncated_envelope_is_refused(client) -> None:
    raw = base64.b64decode(sign(challenge_of(client)))
    assert_refused(post(client, base64.b64encode(raw[:-8]).decode()))


@pytest.mark.parametrize("size", [MAX_CHALLENGE_LENGTH + 1, 12_000])
def test_too_long_challenge_is_refused(client, size) -> None:
    assert_refused(post(client, "A" * size))


@pytest.mark.parametrize("size", [17_000, 60_000, 70_000])
def test_large_body_returns_413(client, size) -> None:
    assert_refused(post(client, "A" * size), 413, "BODY_TOO_LARGE")
    answer = client.post("/auth", data={"transaction": "A" * size})
    assert_refused(answer, 413, "BODY_TOO_LARGE")


def test_false_xdr_lengths_are_cheap(client) -> None:
    # As many signatures, operations or bytes of a text as 32 bits can say.
    raw = base64.b64decode(sign(challenge_of(client)))
    began = time.monotonic()
    for position in range(0, len(raw) - 3, 4):
        lied = raw[:position] + b"\xff\xff\xff\xff" + raw[position + 4 :]
        assert post(client, base64.b64encode(lied).decode()).status_code == 400
    assert time.monotonic() - began < 20


# Challenges that are not ours, or not as we make them


def as_v0(challenge: str) -> str:
    envelope = TransactionEnvelope.from_xdr(challenge, PASSPHRASE)
    envelope.transaction.v1 = False
    return envelope.to_xdr()


def in_a_fee_bump(challenge: str) -> str:
    inner = TransactionEnvelope.from_xdr(challenge, PASSPHRASE)
    bump = FeeBumpTransaction(WALLET.public_key, 400, inner)
    from stellar_sdk import FeeBumpTransactionEnvelope

    envelope = FeeBumpTransactionEnvelope(bump, PASSPHRASE)
    envelope.sign(SERVER)
    envelope.sign(WALLET)
    return envelope.to_xdr()


MUXED: Any = MuxedAccount(WALLET.public_key, 7).account_muxed
CLIENT_DOMAIN = ManageData("client_domain", b"wallet.test", source=ALICE.public_key)

FORGED: dict[str, Callable[[], str]] = {
    "signed by another server": lambda: forge(first(), second(), signer=ALICE),
    "signed by another for this server": lambda: forge(
        first(), second(), signer=ALICE, source=SERVER.public_key
    ),
    "signed by another, operations of its own": lambda: forge(
        first(), second(source=ALICE.public_key), signer=ALICE
    ),
    "of another source": lambda: forge(source=ALICE.public_key),
    "with a sequence number": lambda: forge(sequence=1),
    "expired": lambda: forge(times=(-1000, -100)),
    "from the future": lambda: forge(times=(400, 1000)),
    "for ten years": lambda: forge(times=(-10, 10 * 365 * 86_400)),
    "for 901 seconds": lambda: forge(times=(-10, 891)),
    "for ever": lambda: forge(times=None),
    "of another home domain": lambda: forge(first(home="evil.test"), second()),
    "of another web-auth domain": lambda: forge(first(), second("evil.test")),
    "of another port": lambda: forge(first(), second(f"{DOMAIN}:8443")),
    "without a web-auth domain": lambda: forge(first()),
    "with two other entries": lambda: forge(
        first(), ManageData("other", b"x", source=SERVER.public_key)
    ),
    "web-auth domain said to be removed": lambda: forge(
        first(), ManageData("web_auth_domain", None, source=SERVER.public_key)
    ),
    "web-auth domain by the client": lambda: forge(first(), second(source=WALLET.public_key)),
    "web-auth domain by nobody": lambda: forge(first(), second(source=None)),
    "web-auth domain first": lambda: forge(second(), first()),
    "with 50 more operations": lambda: forge(
        first(),
        second(),
        *(ManageData(f"more {n}", b"x", source=SERVER.public_key) for n in range(50)),
    ),
    "with no operation of ours": lambda: forge(BumpSequence(0, source=WALLET.public_key)),
    "with a payment": lambda: forge(
        first(),
        Payment(ALICE.public_key, Asset.native(), "1", source=WALLET.public_key),
    ),
    "with a payment first": lambda: forge(
        Payment(ALICE.public_key, Asset.native(), "1", source=WALLET.public_key), second()
    ),
    "with a client domain": lambda: forge(first(), second(), CLIENT_DOMAIN, keys=(WALLET, ALICE)),
    "with a client domain in place of ours": lambda: forge(
        first(), CLIENT_DOMAIN, keys=(WALLET, ALICE)
    ),
    "of a muxed account": lambda: forge(first(MUXED), second()),
    "of a muxed server": lambda: forge(
        first(), second(source=MuxedAccount(SERVER.public_key, 7).account_muxed)
    ),
    "of the server itself": lambda: forge(first(SERVER.public_key), second()),
    "with an id memo": lambda: forge(change=lambda builder: builder.add_id_memo(7)),
    "with a text memo": lambda: forge(change=lambda builder: builder.add_text_memo("7")),
    "with more conditions": lambda: forge(
        change=lambda builder: builder.set_min_sequence_number(1)
    ),
    "with a short nonce": lambda: forge(
        ManageData(f"{HOME} auth", b"short", source=WALLET.public_key), second()
    ),
    "with a nonce of another coding": lambda: forge(
        ManageData(f"{HOME} auth", b"*" * 64, source=WALLET.public_key), second()
    ),
    "with no nonce": lambda: forge(
        ManageData(f"{HOME} auth", None, source=WALLET.public_key), second()
    ),
    "without a client": lambda: forge(ManageData(f"{HOME} auth", nonce(), source=None), second()),
    "of another network": lambda: forge(
        passphrase="Public Global Stellar Network ; September 2015"
    ),
    "in an old envelope": lambda: as_v0(forge()),
    "in a fee bump": lambda: in_a_fee_bump(forge()),
}


@pytest.mark.parametrize("case", FORGED)
def test_altered_challenge_is_refused(client, ledger, case) -> None:
    assert_refused(post(client, FORGED[case]()))
    assert ledger.requests == [], "the ledger is asked for challenges of ours alone"


def test_handmade_equal_challenge_is_accepted(client) -> None:
    # Else the cases above might be refused for another reason than their own.
    assert_signed_in(post(client, forge()))


def test_other_home_domain_is_refused(client) -> None:
    other = make_sep10(home_domain="other.test")
    assert_refused(post(client, sign(other.challenge(StellarAddress(WALLET.public_key)))))


# Signatures


def test_challenge_not_signed_by_account_is_refused(client, ledger) -> None:
    assert_refused(post(client, challenge_of(client)))
    assert ledger.requests == []


def test_challenge_not_signed_by_us_is_refused(client, ledger) -> None:
    envelope = TransactionEnvelope.from_xdr(challenge_of(client), PASSPHRASE)
    envelope.signatures = []
    envelope.sign(WALLET)
    assert_refused(post(client, envelope.to_xdr()))
    envelope.sign(ALICE)
    assert_refused(post(client, envelope.to_xdr()))
    assert ledger.requests == []


@pytest.mark.parametrize("on_the_ledger", [True, False])
def test_signature_of_another_account_is_refused(client, ledger, on_the_ledger) -> None:
    if not on_the_ledger:
        ledger.rules.clear()
    assert_refused(post(client, sign(challenge_of(client), ALICE)))


@pytest.mark.parametrize("on_the_ledger", [True, False])
def test_extra_signature_is_refused(client, ledger, on_the_ledger) -> None:
    if not on_the_ledger:
        ledger.rules.clear()
    assert_refused(post(client, sign(challenge_of(client), WALLET, ALICE)))


@pytest.mark.parametrize("on_the_ledger", [True, False])
def test_repeated_signature_is_refused(client, ledger, on_the_ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=2, master=1)
    if not on_the_ledger:
        ledger.rules.clear()
    assert_refused(post(client, sign(challenge_of(client), WALLET, WALLET)))


def test_repeated_signer_counts_once(client, ledger) -> None:
    rules = make_rules(medium=2)
    ledger.rules[WALLET.public_key] = type(rules)(rules.account, 2, rules.signers * 2)
    assert_refused(post(client, sign(challenge_of(client), WALLET, WALLET)))


def test_weight_below_medium_threshold_is_refused(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=3, master=1, alice=1)
    assert_refused(post(client, sign(challenge_of(client), WALLET, ALICE)))


def test_removed_master_key_is_refused(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=0, master=0, alice=1)
    assert_refused(post(client, sign(challenge_of(client), WALLET)))
    assert_refused(post(client, sign(challenge_of(client), WALLET, ALICE)))
    assert_signed_in(post(client, sign(challenge_of(client), ALICE)))


def test_account_without_signers_is_refused(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=0, master=0)
    assert_refused(post(client, sign(challenge_of(client), WALLET)))


def test_server_signature_never_counts_for_account(client, ledger) -> None:
    rules = make_rules(medium=1, master=0)
    ours = type(rules.signers[0])(StellarAddress(SERVER.public_key), 255)
    ledger.rules[WALLET.public_key] = type(rules)(rules.account, 1, (*rules.signers, ours))
    assert_refused(post(client, sign(challenge_of(client), SERVER)))


def test_signature_of_wrong_length_is_refused(client) -> None:
    envelope = xdr.TransactionEnvelope.from_xdr(sign(challenge_of(client)))
    for size in (0, 63):
        envelope.v1.signatures[1].signature = xdr.Signature(b"s" * size)
        assert_refused(post(client, envelope.to_xdr()))


def test_signature_of_another_challenge_is_refused(client) -> None:
    one, other = (
        TransactionEnvelope.from_xdr(sign(challenge_of(client)), PASSPHRASE) for _ in range(2)
    )
    one.signatures[1] = other.signatures[1]
    assert_refused(post(client, one.to_xdr()))


# Without an answer of the ledger


@pytest.mark.parametrize("failure", [NodeUnavailable("timed out"), WrongChain("not ours")])
def test_unreadable_ledger_returns_503(client, ledger, failure) -> None:
    ledger.rules.clear()
    ledger.failure = failure
    signed = sign(challenge_of(client))
    answer = post(client, signed)
    assert_refused(answer, 503, "LEDGER_UNAVAILABLE")
    assert answer.headers["Retry-After"]
    ledger.failure = None
    # The challenge was not used up.
    assert_signed_in(post(client, signed))


def test_hanging_ledger_blocks_limited_threads(reader, monkeypatch) -> None:
    monkeypatch.setattr(concurrency, "WAIT_SECONDS", 0.0)
    app = make_sign_in_app(reader, LimitedAccounts(FixedAccounts(make_rules()), max_waiting=0))
    answer = post(app.test_client(), sign(challenge_of(app.test_client())))
    assert_refused(answer, 503, "LEDGER_UNAVAILABLE")


def test_lost_database_returns_503_without_token(ledger) -> None:
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    app = make_sign_in_app(engine, ledger).test_client()
    assert_refused(post(app, sign(challenge_of(app))), 503, "DATABASE_UNAVAILABLE")
    engine.dispose()


# One use


def test_used_challenge_is_refused(client) -> None:
    signed = sign(challenge_of(client))
    assert_signed_in(post(client, signed))
    assert_refused(post(client, signed), 400, "CHALLENGE_USED")


def test_reencoded_used_challenge_is_refused(client, ledger) -> None:
    ledger.rules[WALLET.public_key] = make_rules(medium=1, alice=1)
    given = challenge_of(client)
    assert_signed_in(post(client, sign(given, WALLET)))
    for signed in (sign(given, ALICE), sign(given, WALLET, ALICE), sign(given, ALICE, WALLET)):
        assert_refused(post(client, signed), 400, "CHALLENGE_USED")
    wrapped = "\n ".join(sign(given, WALLET))
    assert_refused(post(client, wrapped), 400, "CHALLENGE_USED")


def test_refused_challenge_is_not_used_up(client) -> None:
    given = challenge_of(client)
    assert_refused(post(client, sign(given, ALICE)))
    assert_signed_in(post(client, sign(given, WALLET)))


def test_failed_issue_does_not_use_up_challenge(client, monkeypatch) -> None:
    from api.auth.tokens import Tokens

    signed = sign(challenge_of(client))
    with monkeypatch.context() as patched:
        patched.setattr(Tokens, "issue", _cannot)
        patched.setitem(client.application.config, "PROPAGATE_EXCEPTIONS", False)
        assert_refused(post(client, signed), 500, "INTERNAL")
    assert_signed_in(post(client, signed))


def _cannot(*_: object, **__: object) -> str:
    raise RuntimeError("no token today")


def test_of_200_concurrent_uses_one_gets_the_token(database: alchemy.URL, ledger) -> None:
    engine = make_engine(database, role="api", pool_size=32)
    app = make_sign_in_app(engine, LimitedAccounts(ledger, max_waiting=200))
    signed = sign(challenge_of(app.test_client()))

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda _: post(app.test_client(), signed), range(200)))
    engine.dispose()
    assert sorted(answer.status_code for answer in answers) == [200, *[400] * 199]
    codes = {answer.json["code"] for answer in answers if answer.status_code == 400}
    assert codes == {"CHALLENGE_USED"}


def test_login_deletes_expired_challenges(client, owner, monkeypatch) -> None:
    monkeypatch.setattr(challenges, "MAX_DELETED", 3)
    rows = text(
        "INSERT INTO access.used_challenges SELECT 'old ' || n, 'G', now() - interval '2 hours'"
        " FROM generate_series(1, 4) AS n"
        " UNION ALL SELECT 'young', 'G', now() - interval '30 minutes'"
    )
    with owner.begin() as connection:
        connection.execute(rows)

    def kept() -> int:
        with owner.connect() as connection:
            return connection.scalar(select(func.count()).select_from(used_challenges))

    post(client, sign(challenge_of(client)))
    assert kept() == 1 + 1 + 1
    post(client, sign(challenge_of(client)))
    assert kept() == 0 + 1 + 2


# What browsers and clients of the standard need


@pytest.mark.parametrize("path", ["/auth", "/.well-known/stellar.toml"])
def test_preflight_of_any_origin_is_accepted(client, path) -> None:
    answer = client.options(
        path,
        headers={
            "Origin": "https://wallet.test",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        },
    )
    assert answer.status_code == 200
    assert answer.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_any_origin_reads_responses_and_errors(client) -> None:
    good = client.get("/auth", query_string={"account": WALLET.public_key})
    assert good.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert good.headers["Cache-Control"] == "no-store"
    assert_refused(client.put("/auth"), 405, "METHOD_NOT_ALLOWED")
    assert_refused(client.post("/auth", data=b"x" * 70_000), 413, "BODY_TOO_LARGE")


def test_sign_in_without_keys_returns_404(cut_off) -> None:
    for answer in (
        cut_off.get("/auth", query_string={"account": WALLET.public_key}),
        cut_off.post("/auth", json={"transaction": "AAAA"}),
    ):
        assert_refused(answer, 404, "SIGN_IN_OFF")


# Anything at all


def mutated(draw: st.DrawFn, raw: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(raw) - 1))
        cut = draw(st.integers(0, 8))
        raw = raw[:position] + draw(st.binary(max_size=8)) + raw[position + cut :]
        raw = raw or b"\0"
    return raw


SIGNED = base64.b64decode(forge())


@st.composite
def envelopes(draw: st.DrawFn) -> str:
    return base64.b64encode(mutated(draw, SIGNED)).decode()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(), st.text(string.printable), st.binary().map(bytes.hex), envelopes()))
def test_any_body_returns_readable_error(sent: str) -> None:
    sep10 = make_sep10()
    try:
        challenge = sep10.read(sent)
    except ChallengeRefused:
        return
    # What changed was the account's signature, its hint, or nothing.
    known = library.read_challenge_transaction(
        challenge.text, SERVER.public_key, HOME, DOMAIN, PASSPHRASE
    )
    assert known.client_account_id == WALLET.public_key
