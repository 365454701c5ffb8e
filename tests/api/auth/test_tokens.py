"""Tokens issued by the API: claims, lifetime, key rotation, and forgeries."""

import hashlib
import hmac
import json
import math

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from api.auth.claims import LEEWAY_SECONDS, MAX_TOKEN_LENGTH, BadToken
from api.auth.tokens import MAX_LIFETIME, thumbprint, tokens_from_settings, verifying_key
from api.settings import load_api_settings
from devnet.keys import in_files
from indexer.errors import ConfigurationError
from tests.factories.app import NOW
from tests.factories.tokens import (
    ACCOUNT,
    JTI,
    URL,
    claims,
    make_tokens,
    part,
    private_key,
    private_pem,
    public_pem,
    sign,
)

OURS = private_key("ours")
KID = thumbprint(OURS.public_key())


def signed(payload=None, **header):
    """With our own key: only what is said can be wrong."""
    return sign(claims() if payload is None else payload, OURS, **({"kid": KID} | header))


def hmac_signed(secret: bytes, **header) -> str:
    head = {"typ": "JWT", "alg": "HS256", "kid": KID, **header}
    text = f"{part(head)}.{part(claims())}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def unsigned(alg) -> str:
    return f"{part({'typ': 'JWT', 'alg': alg, 'kid': KID})}.{part(claims())}."


def flipped(token: str, position: int) -> str:
    """One character of another value."""
    other = "A" if token[position] != "A" else "B"
    return token[:position] + other + token[position + 1 :]


JWK = jwt.algorithms.ECAlgorithm.to_jwk(OURS.public_key())
GOOD = signed()
HEAD, PAYLOAD, SIGNATURE = GOOD.split(".")
P384 = private_key("ours", ec.SECP384R1)

FORGERIES = {
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "alg none with a signature": f"{part({'typ': 'JWT', 'alg': 'none'})}.{PAYLOAD}.{SIGNATURE}",
    "no alg": signed(alg=None),
    "alg in lower case": signed(alg="es256"),
    "HS256 with the public PEM": hmac_signed(public_pem(OURS).encode()),
    "HS256 with the public PEM, no newline": hmac_signed(public_pem(OURS).strip().encode()),
    "HS256 with the JWK": hmac_signed(JWK.encode()),
    "HS256 with no secret": hmac_signed(b""),
    "a stranger's key": sign(claims(), private_key("other"), kid=KID),
    "a stranger's key that brings itself": sign(claims(), private_key("other"), kid=KID, jwk=JWK),
    "a stranger's kid": sign(claims(), private_key("other"), kid="other"),
    "no kid": signed(kid=None),
    "kid is a number": signed(kid=7),
    "kid is a path": signed(kid="../../../dev/null"),
    "P-384": sign(claims(), P384, "ES384", kid=KID),
    "P-384 called ES256": sign(claims(), P384, "ES384", kid=KID, alg="ES256"),
    "RS256": sign(claims(), rsa.generate_private_key(65537, 2048), "RS256", kid=KID),
    "EdDSA": sign(claims(), ed25519.Ed25519PrivateKey.generate(), "EdDSA", kid=KID),
    "another issuer": signed(claims(iss="https://api.isthmus.test.evil")),
    "the issuer with a slash": signed(claims(iss=f"{URL}/")),
    "the issuer in capitals": signed(claims(iss=URL.upper())),
    "the issuer in a list": signed(claims(iss=[URL])),
    "another audience": signed(claims(aud="https://other.test")),
    "an audience in a list": signed(claims(aud=[URL])),
    "audiences": signed(claims(aud=[URL, "https://other.test"])),
    **{f"no {name}": signed(claims(**{name: None})) for name in claims()},
    **{f"{name} is null": signed(claims() | {name: None}) for name in claims()},
    **{f"{name} is an object": signed(claims(**{name: {"a": 1}})) for name in claims()},
    "exp is text": signed(claims(exp=str(NOW + 60))),
    "exp is a fraction": signed(claims(exp=NOW + 60.5)),
    "exp is true": signed(claims(exp=True)),
    "exp is infinite": signed(json.dumps(claims(exp=math.inf)).encode()),
    "an exp of 5000 digits": signed(
        json.dumps(claims(exp=0)).replace('"exp": 0', '"exp": ' + "9" * 5000).encode()
    ),
    "an exp of 4000 digits": signed(claims(exp=10**4000)),
    "expired": signed(claims(iat=NOW - 3600, exp=NOW - LEEWAY_SECONDS)),
    "issued in the future": signed(claims(iat=NOW + LEEWAY_SECONDS + 1)),
    "not before the future": signed(claims(nbf=NOW + LEEWAY_SECONDS + 1)),
    "nbf is text": signed(claims(nbf="now")),
    "good for longer than ours are": signed(claims(exp=NOW + MAX_LIFETIME + 1)),
    "expires before it was issued": signed(claims(iat=NOW, exp=NOW)),
    "sub is a contract": signed(
        claims(sub="CA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAXE")
    ),
    "sub has a memo": signed(claims(sub=f"{ACCOUNT}:7")),
    "sub in lower case": signed(claims(sub=ACCOUNT.lower())),
    "sub of a wrong checksum": signed(claims(sub=ACCOUNT[:-1] + "A")),
    "jti is empty": signed(claims(jti="")),
    "jti holds a NUL": signed(claims(jti="a\0")),
    "jti ends in a line break": signed(claims(jti="a\n")),
    "jti is too long": signed(claims(jti="x" * 129)),
    "typ is missing": signed(typ=None),
    "typ of another kind": signed(typ="at+jwt"),
    "unknown crit": signed(crit=["exp"], exp=1),
    "b64 is false": signed(b64=False, crit=["b64"]),
    "a payload that is a list": signed([claims()]),
    "a payload that is no JSON": signed(b"{"),
    "a payload that is no UTF-8": signed(b'{"iss": "\xff"}'),
    "a payload that nests too deep": signed(b"[" * 5_000),
    "a header that nests too deep": f"{part(b'[' * 5_000)}.{PAYLOAD}.{SIGNATURE}",
    "a payload in UTF-16": signed(json.dumps(claims()).encode("utf-16-le")),
    "another's payload": f"{HEAD}.{part(claims(sub='G'))}.{SIGNATURE}",
    "a changed header": f"{flipped(HEAD, 10)}.{PAYLOAD}.{SIGNATURE}",
    "a changed payload": f"{HEAD}.{flipped(PAYLOAD, 40)}.{SIGNATURE}",
    "a changed signature": f"{HEAD}.{PAYLOAD}.{flipped(SIGNATURE, 40)}",
    "spare bits set in the signature": f"{HEAD}.{PAYLOAD}.{SIGNATURE[:-1]}"
    + {"A": "B", "Q": "R", "g": "h", "w": "x"}[SIGNATURE[-1]],
    "a signature of zeros": f"{HEAD}.{PAYLOAD}.{part(bytes(64))}",
    "a DER signature": f"{HEAD}.{PAYLOAD}."
    + part(OURS.sign(f"{HEAD}.{PAYLOAD}".encode(), ec.ECDSA(SHA256()))),
    "cut off": GOOD[:-1],
    "without its signature": f"{HEAD}.{PAYLOAD}",
    "with an empty signature": f"{HEAD}.{PAYLOAD}.",
    "five parts": f"{GOOD}.a.b",
    "two tokens": f"{GOOD} {GOOD}",
    "two tokens and a comma": f"{GOOD},{GOOD}",
    "padded": f"{HEAD}=.{PAYLOAD}.{SIGNATURE}",
    "a line break": f"{GOOD}\n",
    "not ASCII": "é.é.é",
    "a lone surrogate": "\ud800.a.b",
    "empty": "",
    "dots": "..",
    "too long": signed(claims(more="x" * MAX_TOKEN_LENGTH)),
}


def test_token_has_account_and_expiry():
    tokens = make_tokens()
    token = tokens.issue(ACCOUNT, jti=JTI)
    assert jwt.decode(token, options={"verify_signature": False}) == {
        "iss": URL,
        "aud": URL,
        "sub": ACCOUNT,
        "jti": JTI,
        "iat": NOW,
        "exp": NOW + MAX_LIFETIME,
    }
    assert jwt.get_unverified_header(token) == {"typ": "JWT", "alg": "ES256", "kid": KID}
    session = tokens.verify(token)
    assert (session.account, session.jti, session.issuer) == (ACCOUNT, JTI, URL)
    assert session.expires_at == NOW + MAX_LIFETIME


def test_base_of_forgeries_is_valid():
    assert make_tokens().verify(GOOD).account == ACCOUNT


@pytest.mark.parametrize("token", FORGERIES.values(), ids=FORGERIES)
def test_forged_token_is_refused(token):
    with pytest.raises(BadToken) as refused:
        make_tokens().verify(token)
    assert refused.value.message == "a valid bearer token is needed"
    assert refused.value.reason


@pytest.mark.parametrize(
    ("after", "good"),
    [
        (-LEEWAY_SECONDS - 1, False),
        (-LEEWAY_SECONDS, True),
        (0, True),
        (3600 + LEEWAY_SECONDS - 1, True),
        (3600 + LEEWAY_SECONDS, False),
    ],
)
def test_token_validity_by_our_clock(after, good):
    tokens = make_tokens(now=NOW + after)
    if good:
        assert tokens.verify(signed()).expires_at == NOW + 3600
    else:
        with pytest.raises(BadToken):
            tokens.verify(signed())


def test_cached_token_expires():
    time = [NOW]
    tokens = make_tokens()
    tokens._clock = lambda: time[0]
    tokens.verify(GOOD)
    time[0] += 3600 + LEEWAY_SECONDS
    with pytest.raises(BadToken):
        tokens.verify(GOOD)


def test_key_rotation_keeps_tokens_valid():
    old, new = private_key("old"), private_key("new")
    before = make_tokens(key="old", others=("new",))
    after = make_tokens(key="new", others=("old",))
    for issuer in (before, after):
        token = issuer.issue(ACCOUNT, jti=JTI)
        assert before.verify(token) == after.verify(token)
    assert thumbprint(old.public_key()) != thumbprint(new.public_key())
    with pytest.raises(BadToken):
        make_tokens(key="new").verify(before.issue(ACCOUNT, jti=JTI))


def test_kid_is_rfc7638_thumbprint():
    x, y = (json.loads(JWK)[name] for name in "xy")
    written = f'{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}'
    assert part(hashlib.sha256(written.encode()).digest()) == KID


def test_lower_lifetime_refuses_older_tokens():
    token = make_tokens().issue(ACCOUNT, jti=JTI)
    with pytest.raises(BadToken):
        make_tokens(lifetime=3600).verify(token)


@pytest.mark.parametrize("account", ["", "G", ACCOUNT.lower(), f"M{ACCOUNT[1:]}"])
def test_issue_for_bad_account_raises(account):
    with pytest.raises(ValueError, match="is not a Stellar account"):
        make_tokens().issue(account, jti=JTI)


@pytest.mark.parametrize("jti", ["", "x" * 129, "a b", "a\n", "\0"])
def test_issue_with_bad_jti_raises(jti):
    with pytest.raises(ValueError, match="1 to 128"):
        make_tokens().issue(ACCOUNT, jti=jti)


def test_tokens_are_built_from_settings(tmp_path):
    variables = in_files(
        tmp_path,
        {
            "ISTHMUS_URL": URL,
            "ISTHMUS_TOKEN_KEY": private_pem(OURS),
            "ISTHMUS_TOKEN_KEY_OTHER": private_pem(private_key("other")),
            "ISTHMUS_TOKEN_SECONDS": "600",
        },
    )
    settings = load_api_settings(variables)
    tokens = tokens_from_settings(settings, lambda: NOW)
    assert tokens.verify(tokens.issue(ACCOUNT, jti=JTI)).expires_at == NOW + 600
    theirs = make_tokens(key="other", lifetime=600)
    assert tokens.verify(theirs.issue(ACCOUNT, jti=JTI)).account == ACCOUNT
    assert tokens_from_settings(load_api_settings({}), lambda: NOW) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ISTHMUS_TOKEN_KEY": private_pem(P384)}, "ISTHMUS_TOKEN_KEY_FILE must be a P-256 key"),
        (
            {"ISTHMUS_TOKEN_KEY": private_pem(ed25519.Ed25519PrivateKey.generate())},
            "ISTHMUS_TOKEN_KEY_FILE must be a P-256 key",
        ),
        (
            {"ISTHMUS_TOKEN_KEY": public_pem(OURS)},
            "TOKEN_KEY_FILE holds no unencrypted private key",
        ),
        (
            {"ISTHMUS_TOKEN_KEY_OTHER": "hunter2"},
            "KEY_OTHER_FILE holds no unencrypted private",
        ),
    ],
)
def test_bad_key_setting_is_named_not_quoted(tmp_path, changes, message):
    good = {
        "ISTHMUS_URL": URL,
        "ISTHMUS_TOKEN_KEY": private_pem(OURS),
        "ISTHMUS_TOKEN_KEY_OTHER": private_pem(OURS),
    }
    with pytest.raises(ConfigurationError, match=message) as refused:
        tokens_from_settings(load_api_settings(in_files(tmp_path, good | changes)), lambda: NOW)
    assert "hunter2" not in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_public_key_of_other_curve_raises():
    assert thumbprint(verifying_key(public_pem(OURS), "X")) == KID
    with pytest.raises(ConfigurationError, match="X must be a P-256 key"):
        verifying_key(public_pem(P384), "X")
    with pytest.raises(ConfigurationError, match="X holds no public key"):
        verifying_key(private_pem(OURS), "X")


def test_settings_repr_contains_no_key(tmp_path):
    variables = in_files(
        tmp_path,
        {
            "ISTHMUS_URL": URL,
            "ISTHMUS_TOKEN_KEY": "hunter2",
            "ISTHMUS_TOKEN_KEY_OTHER": "hunter3",
        },
    )
    settings = load_api_settings(variables)
    assert (settings.token_key, settings.token_key_other) == ("hunter2", "hunter3")
    assert "hunter" not in repr(settings)
