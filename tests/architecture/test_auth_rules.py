"""No path is open by oversight: every URL rule belongs to a blueprint that states one auth rule."""

import pytest
from flask import Flask
from sqlalchemy import create_engine

from api.auth.owner import RULES, public
from tests.factories.app import make_app

PUBLIC = {
    "/",
    "/assets/<version>/<path:name>",
    "/healthz",
    "/readyz",
    "/v1/routes",
    "/api/v1/orderbook",
    "/api/v1/orderbook/summary",
    "/api/v1/providers/<address>",
    "/api/v1/intents",
    "/api/v1/intents/<order_id>",
    "/api/v1/stream",
}
"""What the specification opens, the page that shows it, and the process's own health. Nothing joins
by accident."""


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


def test_exactly_these_paths_are_public(app):
    opened = {
        rule.rule
        for rule in app.url_map.iter_rules()
        if stated_rules(app, rule.endpoint) == [public]
    }
    assert opened == PUBLIC


def test_the_public_paths_of_this_step_only_read(app):
    for rule in app.url_map.iter_rules():
        assert rule.methods == {"GET", "HEAD", "OPTIONS"}, rule
