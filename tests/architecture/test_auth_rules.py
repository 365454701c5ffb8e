"""Every URL rule belongs to a blueprint that states one auth rule."""

import pytest
from flask import Flask
from sqlalchemy import create_engine

from api.auth.owner import RULES, owner_only, public
from tests.factories.app import make_app

PUBLIC = {
    "/",
    "/transfers",
    "/transfers/<transfer>",
    "/assets/<version>/<path:name>",
    "/healthz",
    "/readyz",
    "/readyz/process",
    "/docs",
    "/docs/<path:name>",
    "/openapi.json",
    "/asyncapi.json",
    "/v1/routes",
    "/api/v1/orderbook",
    "/api/v1/orderbook/summary",
    "/api/v1/orderbook/history",
    "/api/v1/providers/<address>",
    "/api/v1/providers/<address>/activity",
    "/api/v1/intents",
    "/api/v1/intents/<order_id>",
    "/api/v1/stream",
    "/v1/status",
    "/status",
    "/auth",
    "/.well-known/stellar.toml",
}
"""What the specification opens, the pages that show it, and the process's own health. Nothing joins
by accident."""

OWNERS = {
    "/v1/session",
    "/v1/quotes",
    "/v1/transfers",
    "/v1/transfers/<transfer>",
    "/v1/transfers/<transfer>/cancel",
    "/v1/transfers/<transfer>/actions",
    "/v1/transfers/<transfer>/submissions",
    "/v1/webhooks",
    "/v1/webhooks/<webhook>",
    "/v1/webhooks/<webhook>/events",
}
"""What needs a token."""


@pytest.fixture(scope="module")
def app() -> Flask:
    return make_app(create_engine("postgresql+psycopg://not-used"))


def stated_rules(app, endpoint):
    """Auth rules of the blueprint an endpoint belongs to; those of no blueprint have none."""
    blueprint = endpoint.rpartition(".")[0]
    return [hook for hook in app.before_request_funcs.get(blueprint, []) if hook in RULES]


def test_every_path_states_exactly_one_rule(app):
    rules = list(app.url_map.iter_rules())
    assert rules
    for rule in rules:
        assert len(stated_rules(app, rule.endpoint)) == 1, f"{rule} states no auth rule, or two"


def paths_of(app, rule):
    return {r.rule for r in app.url_map.iter_rules() if stated_rules(app, r.endpoint) == [rule]}


@pytest.mark.parametrize(("rule", "paths"), [(public, PUBLIC), (owner_only, OWNERS)])
def test_exactly_these_paths_state_a_rule(app, rule, paths):
    assert paths_of(app, rule) == paths


def test_public_paths_are_read_only_except_sign_in(app):
    for rule in app.url_map.iter_rules():
        if rule.rule in PUBLIC and rule.endpoint != "auth.take_challenge":
            assert rule.methods == {"GET", "HEAD", "OPTIONS"}, rule


def test_token_paths_return_401_without_token(app):
    for rule in app.url_map.iter_rules():
        if rule.rule in OWNERS:
            path = app.url_map.bind("x").build(
                rule.endpoint, dict.fromkeys(rule.arguments, "1"), method=next(iter(rule.methods))
            )
            for method in rule.methods - {"OPTIONS"}:
                answer = app.test_client().open(path, method=method)
                assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_options_request_needs_no_token(app):
    assert app.test_client().options("/v1/session").status_code == 200
