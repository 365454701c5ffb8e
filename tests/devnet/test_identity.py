"""Stand-in of the identity provider, over HTTP as a demo uses it."""

from collections.abc import Iterator

import httpx
import jwt
import pytest

from api.settings import load_api_settings
from devnet.identity.check import sign_in_problems
from devnet.identity.provider import StandIn, wallet
from devnet.identity.server import serving
from devnet.keys import in_files
from devnet.local_http import local_client

ACCOUNT = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn("an-app")


@pytest.fixture
def http(stand_in: StandIn) -> Iterator[httpx.Client]:
    with serving(stand_in) as url, local_client(url, timeout=10) as http:
        yield http


def test_token_is_signed_with_the_published_key(http):
    user = http.post("/devnet/users", json={"address": ACCOUNT}).json()["subject"]
    token = http.post("/devnet/tokens", json={"subject": user, "sid": "s"}).json()["token"]
    [key] = jwt.PyJWKSet.from_dict(http.get("/v1/apps/an-app/jwks.json").json()).keys
    claims = jwt.decode(token, key, algorithms=["ES256"], audience="an-app", issuer="privy.io")
    assert (claims["sub"], claims["sid"]) == (user, "s")
    assert jwt.get_unverified_header(token)["kid"] == key.key_id


def test_user_is_returned_only_with_app_credentials(http, stand_in):
    user = stand_in.add_user(wallet(ACCOUNT))
    ours = {"auth": ("an-app", stand_in.app_secret), "headers": {"privy-app-id": "an-app"}}
    shown = http.get(f"/v1/users/{user}", **ours).json()
    assert shown["id"] == user
    assert [account["address"] for account in shown["linked_accounts"]][-1] == ACCOUNT
    assert http.get("/v1/users/did:privy:none", **ours).status_code == 404
    for wrong in (
        {"auth": ("an-app", "guess"), "headers": {"privy-app-id": "an-app"}},
        {"auth": ("an-app", stand_in.app_secret)},
        {"headers": {"privy-app-id": "an-app"}},
    ):
        assert http.get(f"/v1/users/{user}", **wrong).status_code == 401


def test_injected_fault_is_returned(http):
    assert http.post("/devnet/faults", json={"keys": "429"}).status_code == 200
    refused = http.get("/v1/apps/an-app/jwks.json")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "7")
    http.post("/devnet/faults", json={"keys": None})
    assert http.get("/v1/apps/an-app/jwks.json").status_code == 200


@pytest.mark.parametrize(
    ("path", "wish"),
    [("faults", {"keys": "odd"}), ("faults", {"odd": "down"}), ("tokens", {}), ("users", 7)],
)
def test_malformed_control_request_returns_400(http, path, wish):
    assert http.post(f"/devnet/{path}", json=wish).status_code == 400


def test_api_on_local_chains_reads_its_settings(stand_in, http, tmp_path):
    real = {"ISTHMUS_IDENTITY_KEY": "of the real one", "ISTHMUS_IDENTITY_ISSUER": "other"}
    url = str(http.base_url).rstrip("/")
    read = load_api_settings(in_files(tmp_path, {**real, **stand_in.variables(url)}))
    assert (read.identity_app_id, read.identity_app_secret) == ("an-app", stand_in.app_secret)
    assert (read.identity_issuer, read.identity_url) == ("privy.io", url)
    assert (read.identity_key, read.identity_seconds) == (None, 7200)


def test_failed_sign_in_is_a_problem_of_the_demo(stand_in):
    def answer(status, body):
        return httpx.Client(
            base_url="http://api.test",
            transport=httpx.MockTransport(lambda _: httpx.Response(status, json=body)),
        )

    good = {"account": ACCOUNT, "issuer": "privy.io"}
    for status, body, problems in ((200, good, 0), (401, {}, 1), (200, good | {"account": "G"}, 1)):
        with answer(status, body) as api:
            assert len(sign_in_problems(api, stand_in, ACCOUNT)) == problems


def test_identity_and_access_tokens_have_their_own_claims(stand_in):
    user = stand_in.add_user(wallet(ACCOUNT))
    read = {"options": {"verify_signature": False}}
    access = jwt.decode(stand_in.token(user), **read)
    identity = jwt.decode(stand_in.identity_token(user), **read)
    assert set(access) == {"iss", "aud", "sub", "sid", "iat", "exp"}
    assert set(identity) == {"iss", "aud", "sub", "cr", "linked_accounts", "iat", "exp"}
