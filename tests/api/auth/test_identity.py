"""Identity provider tokens as bearers: valid ones, and forgeries."""

import hashlib
import hmac
import json
from functools import partial

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from stellar_sdk import Keypair

from api.auth.claims import LEEWAY_SECONDS
from api.auth.identity import identity_from_settings
from api.auth.key_set import pinned_key
from api.auth.provider import IdentityProviderApi
from api.settings import load_api_settings
from devnet.identity.provider import ISSUER, KID, wallet
from devnet.keys import in_files
from tests.factories.app import NOW
from tests.factories.identity import LONGEST, PATIENT
from tests.factories.tokens import ACCOUNT, make_tokens, part, private_key, public_pem, sign

PATH = "/v1/session"
REFUSED = {"message": "a valid bearer token is needed", "code": "UNAUTHORIZED"}


def ask(client, token, method="GET"):
    return client.open(PATH, method=method, environ_base={"HTTP_AUTHORIZATION": f"Bearer {token}"})


@pytest.fixture
def user(world):
    return world.stand_in.add_user(wallet(ACCOUNT))


def test_access_token_returns_wallet_account(world, user):
    answer = ask(world.client(), world.token(user))
    assert (answer.status_code, answer.json["account"]) == (200, ACCOUNT)
    assert answer.json["issuer"] == ISSUER
    assert answer.json["expires_at"].endswith("Z")


def test_both_kinds_of_token_are_one_owner(world, user):
    client = world.client()
    ours = ask(client, make_tokens().issue(ACCOUNT, jti="a")).json["account"]
    assert ask(client, world.token(user)).json["account"] == ours


def test_logout_with_provider_token_returns_400(world, user):
    answer = ask(world.client(), world.token(user), "DELETE")
    assert (answer.status_code, answer.json["code"]) == (400, "NOT_OUR_TOKEN")
    assert "privy.io" in answer.json["message"]


def claims(world, user, **changes):
    good = {
        "iss": ISSUER,
        "aud": world.stand_in.app_id,
        "sub": user,
        "sid": "s",
        "iat": NOW,
        "exp": NOW + 3600,
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


CLAIMS = {
    **{f"no {name}": {name: None} for name in ("iss", "aud", "sub", "sid", "iat", "exp")},
    "a look-alike of the issuer": {"iss": "privy.io.evil"},
    "the issuer as a URL": {"iss": "https://privy.io"},
    "the issuer in capitals": {"iss": "Privy.io"},
    "the issuer with a space": {"iss": "privy.io "},
    "the issuer in a list": {"iss": ["privy.io"]},
    "another app": {"aud": "another-app"},
    "the app in a list": {"aud": ["isthmus-demo"]},
    "expired": {"iat": NOW - 3600, "exp": NOW - LEEWAY_SECONDS},
    "issued in the future": {"iat": NOW + LEEWAY_SECONDS + 1},
    "not before the future": {"nbf": NOW + LEEWAY_SECONDS + 1},
    "exp is text": {"exp": str(NOW + 60)},
    "good for too long": {"exp": NOW + LONGEST + 1},
    "sid is empty": {"sid": ""},
    "sid is a number": {"sid": 7},
    "an identity token": {"sid": None, "cr": "1700000000", "linked_accounts": "[]"},
    "an identity token with a session": {"linked_accounts": "[]"},
    "a subject of another kind": {"sub": "did:other:abc"},
    "a subject with a path": {"sub": "did:privy:abc/../def"},
    "a subject with a line break": {"sub": "did:privy:abc\n"},
    "a subject that is too long": {"sub": "did:privy:" + "a" * 65},
    "a subject that is an account": {"sub": ACCOUNT},
}


@pytest.mark.parametrize("changes", CLAIMS.values(), ids=CLAIMS)
def test_wrong_claim_is_refused(world, user, changes):
    token = sign(claims(world, user, **changes), world.stand_in.key, kid=KID)
    answer = ask(world.client(), token)
    assert (answer.status_code, answer.json) == (401, REFUSED)
    # Nobody is looked up for a token that is not good.
    assert not any(call.startswith("users") for call in world.stand_in.calls)


def forgeries(world, user):
    """Each with another signature, or none, than the provider's on a good token."""
    key, good = world.stand_in.key, claims(world, user)
    pem = public_pem(key).encode()
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()).encode()
    token = sign(good, key, kid=KID)
    head, payload, signature = token.split(".")
    p384, stranger = private_key("x", ec.SECP384R1), private_key("stranger")

    def hmac_signed(secret):
        text = f"{part({'typ': 'JWT', 'alg': 'HS256', 'kid': KID})}.{payload}"
        return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"

    return {
        "alg none": f"{part({'typ': 'JWT', 'alg': 'none', 'kid': KID})}.{payload}.",
        "alg none, signed": f"{part({'typ': 'JWT', 'alg': 'none', 'kid': KID})}.{payload}.AAAA",
        "HS256 with the PEM": hmac_signed(pem),
        "HS256 with the JWK": hmac_signed(jwk),
        "P-384": sign(good, p384, "ES384", kid=KID),
        "P-384 called ES256": sign(good, p384, "ES384", kid=KID, alg="ES256"),
        "RS256": sign(good, rsa.generate_private_key(65537, 2048), "RS256", kid=KID),
        "another key": sign(good, stranger, kid=KID),
        "another key by its own name": sign(good, stranger, kid="stranger"),
        "a key in the header": sign(good, stranger, kid=KID, jwk=json.loads(jwk)),
        "a key behind a URL": sign(good, stranger, kid=KID, jku="http://127.0.0.1:1/jwks.json"),
        "a certificate behind a URL": sign(good, stranger, kid=KID, x5u="http://127.0.0.1:1/x"),
        "our own key": sign(good, private_key("ours"), kid=KID),
        "kid is a number": sign(good, key, kid=1),
        "no typ": sign(good, key, kid=KID, typ=None),
        "another typ": sign(good, key, kid=KID, typ="id+jwt"),
        "unknown crit": sign(good, key, kid=KID, crit=["sid"], sid=1),
        "tampered": f"{head}.{part(claims(world, user, sub='did:privy:other'))}.{signature}",
        "cut off": token[:-2],
        "without a signature": f"{head}.{payload}.",
        "two tokens": f"{token} {token}",
        "two headers": f"{token},Bearer {token}",
        "too long": sign(good | {"x": "x" * 8192}, key, kid=KID),
    }


def test_forged_token_is_refused(world, user):
    client = world.client()
    for name, token in forgeries(world, user).items():
        answer = ask(client, token)
        assert (answer.status_code, answer.json) == (401, REFUSED), name
    assert not any(call.startswith("users") for call in world.stand_in.calls)
    assert ask(client, world.token(user)).status_code == 200


@pytest.mark.parametrize(
    ("after", "status"),
    [
        (-LEEWAY_SECONDS - 1, 401),
        (-LEEWAY_SECONDS, 200),
        (3600 + LEEWAY_SECONDS - 1, 200),
        (3600 + LEEWAY_SECONDS, 401),
    ],
)
def test_token_validity_by_our_clock(world, user, after, status):
    assert ask(world.client(now=NOW + after), world.token(user)).status_code == status


def test_token_lifetime_limit_is_configurable(world, user):
    assert ask(world.client(), world.token(user, exp=NOW + LONGEST)).status_code == 200


def test_provider_token_without_provider_returns_401(world, user):
    client = world.client()
    client.application.extensions["isthmus-authenticator"]._issuers.pop(ISSUER)
    answer = ask(client, world.token(user))
    assert (answer.status_code, answer.json) == (401, REFUSED)
    assert world.stand_in.calls == []


def test_tokens_do_not_cross_issuers(world, user):
    client = world.client()
    ours = sign(claims(world, user), private_key("ours"), kid=KID)
    theirs = make_tokens(key="stranger").issue(ACCOUNT, jti="a")
    for token in (ours, theirs):
        assert ask(client, token).status_code == 401


def test_pinned_key_reads_no_key_set(world, user):
    client = world.client(keys=pinned_key(world.stand_in.key.public_key()))
    world.stand_in.faults = {"keys": "down"}
    assert ask(client, world.token(user)).status_code == 200
    assert ask(client, sign(claims(world, user), private_key("x"), kid=KID)).status_code == 401
    assert "keys" not in world.stand_in.calls


def test_only_provider_host_is_logged(world, user, caplog):
    client = world.client()
    token = world.token(user)
    with caplog.at_level("DEBUG", "api"):
        assert ask(client, token).status_code == 200
        world.stand_in.faults = {"users": "nonsense"}
        world.timer.now += 601
        ask(world.client(), token)
    assert "identity provider at 127.0.0.1" in caplog.text
    secrets = (world.stand_in.app_secret, "someone@example.com", user, *token.split("."))
    assert not any(secret in caplog.text for secret in secrets)


@pytest.mark.parametrize("pinned", [False, True])
def test_identity_provider_from_settings(world, user, reader, pinned, tmp_path, monkeypatch):
    patient = partial(IdentityProviderApi, timeout=PATIENT)
    monkeypatch.setattr("api.auth.identity.IdentityProviderApi", patient)
    variables = in_files(
        tmp_path,
        {
            "ISTHMUS_IDENTITY_APP_ID": world.stand_in.app_id,
            "ISTHMUS_IDENTITY_APP_SECRET": world.stand_in.app_secret,
            "ISTHMUS_IDENTITY_ISSUER": ISSUER,
            "ISTHMUS_IDENTITY_URL": world.url,
            "ISTHMUS_IDENTITY_KEY": public_pem(world.stand_in.key) if pinned else "",
        },
    )
    settings = load_api_settings(variables)
    assert world.stand_in.app_secret not in repr(settings)
    identity = identity_from_settings(settings, reader, lambda: NOW)
    assert identity.verify(world.token(user)).account == ACCOUNT
    assert ("keys" in world.stand_in.calls) is not pinned
    assert identity_from_settings(load_api_settings({}), reader, lambda: NOW) is None


def test_imported_wallet_is_accepted(world):
    imported = wallet(Keypair.random().public_key, imported=True)
    user = world.stand_in.add_user(imported)
    assert ask(world.client(), world.token(user)).json["account"] == imported["address"]
