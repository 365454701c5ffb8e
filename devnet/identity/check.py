"""Whether the API lets in a user of the stand-in as the owner of the user's wallet."""

import httpx

from devnet.identity.provider import ISSUER, StandIn, wallet


def sign_in_problems(api: httpx.Client, stand_in: StandIn, account: str) -> list[str]:
    """Problems, a sentence each."""
    token = stand_in.token(stand_in.add_user(wallet(account)))
    answer = api.get("/v1/session", headers={"Authorization": f"Bearer {token}"})
    if answer.status_code != 200:
        return [f"a user of the identity provider was answered {answer.status_code}"]
    session = answer.json()
    if (session["account"], session["issuer"]) != (account, ISSUER):
        return [f"a user of the identity provider is {session['account']}, not {account}"]
    return []
