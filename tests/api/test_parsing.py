"""Bodies and queries are parsed strictly; an invalid one returns 400 and is named."""

import json

import pytest
from flask import Flask

from api.errors import register_error_handlers
from api.parsing import Strict, read_body, read_body_or_form, read_query


class Payment(Strict):
    """A body as endpoints have them."""

    amount: str
    note: str = ""
    parts: tuple[int, ...] = ()
    weight: float = 0


PATHS = {"/json": read_body, "/either": read_body_or_form}


@pytest.fixture
def app() -> Flask:
    app = Flask("parsing")
    register_error_handlers(app)
    for path, read in PATHS.items():
        app.add_url_rule(path, path, lambda read=read: read(Payment).model_dump(), methods=["POST"])
    app.add_url_rule("/query", view_func=lambda: read_query(("one", "other")))
    return app


@pytest.fixture
def post(app):
    def post(body, kind="application/json", path="/json"):
        return app.test_client().post(path, data=body, content_type=kind)

    return post


def refused(response, *words, code="BAD_BODY", status=400):
    assert (response.status_code, response.json["code"]) == (status, code), response.json
    for word in words:
        assert word in response.json["message"]
    return True


def test_json_object_is_parsed(post):
    answer = post('{"amount": "7", "parts": [1, 2], "weight": 1.5}')
    assert answer.json == {"amount": "7", "note": "", "parts": [1, 2], "weight": 1.5}


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON"])
def test_content_type_variants_are_accepted(post, kind):
    assert post('{"amount": "7"}', kind).status_code == 200


BODY_THAT_IS_NO_JSON_OBJECT_RETURNS_400 = [
    "",
    " ",
    "null",
    "[]",
    '"text"',
    "1",
    "true",
    "{",
    '{"amount": "7"} x',
    "amount=7",
    "{'a': 1}",
]


def test_body_that_is_no_json_object_returns_400(post, subtests):
    for body in BODY_THAT_IS_NO_JSON_OBJECT_RETURNS_400:
        with subtests.test(body=body):
            assert refused(post(body))


BAD_BODIES = [
    ('{"amount": "7", "amuont": "8"}', "amuont"),
    ('{"amount": "7", "amount": "8"}', "'amount' twice"),
    ('{"amount": "7", "extra": {"a": 1, "a": 1}}', "'a' twice"),
    ('{"note": "7"}', "amount is missing"),
    ('{"amount": 7}', "amount"),
    ('{"amount": null}', "amount"),
    ('{"amount": "7", "parts": ["1"]}', "parts.0"),
    ('{"amount": "7", "parts": [1.0]}', "parts.0"),
    ('{"amount": "7", "parts": [true]}', "parts.0"),
    ('{"amount": "7", "weight": NaN}', "NaN"),
    ('{"amount": "7", "weight": Infinity}', "Infinity"),
    ('{"amount": "7", "weight": -Infinity}', "Infinity"),
    ('{"amount": "7", "weight": 1e999}', "too large"),
    ('{"amount": "7", "parts": [' + "9" * 5000 + "]}", "too large"),
    ('{"amount": "\\ud800"}', "surrogate"),
    ('{"amount": "\\udc00\\ud800"}', "surrogate"),
    ('{"\\ud800": "7"}', "surrogate"),
    ('{"amount": "\\u0000"}', "NUL"),
    ('{"amount": "7", "a\\u0000": 1}', "NUL"),
    ('{"amount": "a\0"}', "NUL"),
    ('{"amount": ' + "[" * 33 + "]" * 33 + "}", "deep"),
    ('{"amount": ' + "[" * 60_000, "deep"),
    ("[" * 30_000 + "]" * 30_000, "deep"),
]


def test_invalid_member_returns_400_naming_it(post, subtests):
    for body, word in BAD_BODIES:
        with subtests.test(body=body, word=word):
            assert refused(post(body), word)


@pytest.mark.parametrize("body", [b'{"amount": "\xff"}', '{"amount": "7"}'.encode("utf-16")])
def test_body_that_is_not_utf_8_returns_400(post, body):
    assert refused(post(body))


def test_lone_surrogate_returns_400(post):
    assert post('{"amount": "\\ud83d\\udcb6"}').json["amount"] == "💶"


def test_allowed_depth_is_validated_by_the_model(post):
    assert refused(post('{"amount": ' + "[" * 30 + "]" * 30 + "}"), "amount")


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/merge-patch+json", "application/json; charset=utf-16",
     "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)  # fmt: skip
def test_other_media_type_returns_415(post, kind):
    assert refused(post('{"amount": "7"}', kind), code="UNSUPPORTED_MEDIA_TYPE", status=415)


def test_values_are_not_repeated_in_messages(post):
    for body in ('{"amount": ["hunter2"]}', '{"amount": "7", "parts": "hunter2"}'):
        assert "hunter2" not in post(body).get_data(as_text=True)


def test_long_name_is_truncated_in_message(post):
    message = post(json.dumps({"amount": "7", "x" * 5000: 1})).json["message"]
    assert len(message) < 120


FORM = "application/x-www-form-urlencoded"


def test_form_equals_json(post):
    answer = post("amount=7+8%2B&note=", FORM, "/either")
    assert answer.json == {"amount": "7 8+", "note": "", "parts": [], "weight": 0}
    assert post('{"amount": "7"}', path="/either").json["amount"] == "7"


FORM_IS_PARSED_STRICTLY = [
    ("", "amount is missing", "BAD_BODY"),
    ("amount=7&more=1", "field 'more'", "UNKNOWN_PARAMETER"),
    ("amount=7&amount=7", "amount", "REPEATED_PARAMETER"),
    ("amount=%00", "NUL", "BAD_BODY"),
    ("amount=%ff", "UTF-8", "BAD_BODY"),
    ("amount=7&parts=1", "parts", "BAD_BODY"),
    ("&".join(["amount=7"] * 65), "64", "BAD_BODY"),
]


def test_form_is_parsed_strictly(post, subtests):
    for body, word, code in FORM_IS_PARSED_STRICTLY:
        with subtests.test(body=body, word=word, code=code):
            assert refused(post(body, FORM, "/either"), word, code=code)


# Queries


def test_query_is_parsed(app):
    assert app.test_client().get("/query?one=a+b&other=%F0%9F%92%B6").json == {
        "one": "a b",
        "other": "💶",
    }
    assert app.test_client().get("/query").json == {}


QUERY_IS_PARSED_STRICTLY = [
    ("three=1", "'three'", "UNKNOWN_PARAMETER"),
    ("one=1&One=1", "'One'", "UNKNOWN_PARAMETER"),
    ("one=1&one=1", "one", "REPEATED_PARAMETER"),
    ("one", "", ""),
    ("one=%00", "NUL", "BAD_QUERY"),
    ("one=%C3", "UTF-8", "BAD_QUERY"),
    ("&".join(f"a{i}=" for i in range(65)), "64", "BAD_QUERY"),
]


def test_query_is_parsed_strictly(app, subtests):
    for query, word, code in QUERY_IS_PARSED_STRICTLY:
        with subtests.test(query=query, word=word, code=code):
            response = app.test_client().get(f"/query?{query}")
            assert refused(response, word, code=code) if code else response.json == {"one": ""}


def test_every_path_refuses_a_malformed_query(cut_off, subtests):
    for path in ["/healthz", "/api/v1/orderbook", "/nothing", "/"]:
        for query in ["x=%00", "%00", "x=%ff", "x=%C3%28", "x=%ED%A0%80"]:
            with subtests.test(path=path, query=query):
                assert refused(cut_off.get(f"{path}?{query}"), code="BAD_QUERY")


@pytest.mark.parametrize(
    "path", ["orderbook?rail=a&rail=b", "intents?limit=1&limit=2", "orderbook?currency=&currency="]
)
def test_repeated_filter_returns_400(client, book, path):
    assert refused(client.get(f"/api/v1/{path}"), code="REPEATED_PARAMETER")


def test_reads_ignore_other_parameters(client, book):
    for path in ("orderbook?_=1&_=2", "intents?_=1&x"):
        assert client.get(f"/api/v1/{path}").status_code == 200


def test_failed_if_match_returns_412(client, book):
    for path in ("/api/v1/orderbook", "/v1/routes"):
        response = client.get(path, headers={"If-Match": '"other"'})
        assert refused(response, code="NOT_THE_SAME", status=412)
