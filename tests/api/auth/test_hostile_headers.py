"""Any Authorization header gives an owner or the same refusal."""

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from api.auth.authenticator import Authenticator
from api.auth.claims import BadToken
from api.auth.revocation import Revocations
from api.errors import Unauthorized
from tests.factories.tokens import ACCOUNT, URL, claims, make_tokens, part, private_key, sign

KID = make_tokens()._kid
GOOD = make_tokens().issue(ACCOUNT, jti="good")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
PARTS = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())


class NoRevocations(Revocations):
    """No token was revoked, and no database is asked."""

    def contains(self, jti: str) -> bool:
        return False


@pytest.fixture(scope="module")
def gate():
    return Authenticator(
        [make_tokens()], NoRevocations(create_engine("postgresql+psycopg://not-used"))
    )


def refused(gate, header):
    with pytest.raises(Unauthorized) as error:
        gate.admit(header)
    assert error.value.message == "a valid bearer token is needed"


def encoded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(header=st.text(max_size=200))
def test_any_text_as_token_is_refused(gate, header):
    refused(gate, header)


@FEW
@given(parts=st.lists(PARTS, min_size=1, max_size=5))
def test_any_token_parts_are_refused(gate, parts):
    refused(gate, "Bearer " + ".".join(map(encoded, parts)))


@FEW
@given(name=st.sampled_from(["typ", "alg", "kid", "crit", "b64", "x"]), value=JSON)
def test_any_other_jws_header_is_refused(gate, name, value):
    head = {"typ": "JWT", "alg": "ES256", "kid": KID, name: value}
    refused(gate, f"Bearer {part(head)}.{part(claims())}.{encoded(b'x' * 64)}")


@FEW
@given(name=st.sampled_from([*claims(), "nbf"]), value=JSON)
def test_signed_claim_of_wrong_type_is_refused(gate, name, value):
    token = sign(claims() | {name: value}, private_key("ours"), kid=KID)
    try:
        session = gate.admit(f"Bearer {token}")
    except BadToken:
        return
    # What is left to chance: an id of another name, and times that hold all the same.
    assert name in ("jti", "iat", "nbf", "exp")
    assert (session.account, session.issuer) == (ACCOUNT, URL)
    assert type(value) is (str if name == "jti" else int)


@FEW
@given(position=st.integers(0, len(GOOD) - 1), character=st.characters())
def test_token_with_changed_character_is_refused(gate, position, character):
    if character != GOOD[position]:
        refused(gate, f"Bearer {GOOD[:position]}{character}{GOOD[position + 1 :]}")


@FEW
@given(cut=st.integers(0, len(GOOD) - 1))
def test_truncated_token_is_refused(gate, cut):
    refused(gate, f"Bearer {GOOD[:cut]}")
