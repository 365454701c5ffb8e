"""The client's models have the members of the schemas in clients/python/openapi.json."""

import json
from collections.abc import Iterator
from typing import Any

from isthmus_client import models, webhooks
from isthmus_client.models import BookModel, Model
from tests.architecture.client_document import PATH, RULES, document, rules

SCHEMAS = json.loads(PATH.read_text())["components"]["schemas"]
NAMES: dict[str, tuple[str, ...]] = {
    "Change": ("ChangedTransfer",),
    "FeeDetail": ("FeeDetail", "NativeFee"),
    "Moved": ("Sum",),
    "Readiness": ("Ready", "NotReady"),
    "TransferPage": ("TransferList",),
    "WebhookEventPage": ("WebhookEventList",),
}
"""Model → schemas that it reads, where it is not the one of its name."""
NO_SCHEMA = {
    # Any kind of action that the version of the client does not know.
    "OtherAction",
}
NO_MODEL = {
    # Requests: arguments of methods.
    *("NewQuote", "NewSubmission", "NewTransfer", "NewWebhook", "SignedChallenge"),
    # An exception; the list itself; not read.
    *("Error", "Routes", "Alive", "ProcessReady"),
}
OPTIONAL = {
    # Later members of the API: an answer without them is read, too.
    "Actions.needs_trustline",
    "LaneStatus.p90_seconds",
    "Quote.needs_trustline",
    "Status.reasons",
    *(f"Status.{member}" for member in ("as_of", "verdict", "sentence", "problems")),
    *(f"Status.{member}" for member in ("chains", "routes", "incidents")),
    "Step.clock",
    "Transfer.extras_self_finish",
}
"""Members that the document requires, and the client does not."""


def test_committed_document_is_current() -> None:
    assert PATH.read_text() == document(), "run `make openapi`"
    assert RULES.read_text() == rules(), "run `make openapi`"


def test_every_response_schema_has_a_model() -> None:
    read = {name for model in client_models() for name in NAMES.get(model, (model,))}
    assert read - NO_SCHEMA == SCHEMAS.keys() - NO_MODEL


def test_models_have_the_members_of_their_schemas() -> None:
    found = [
        sentence
        for name, model in client_models().items()
        if name not in NO_SCHEMA
        for sentence in differences(name, model)
    ]
    assert found == []


def test_planted_differences_are_found() -> None:
    class Token(Model):
        token: str | None
        extra: int = 0

    assert list(differences("Token", Token)) == [
        "Token: ['extra'] are in one of both",
        "Token.token: nullable in one of both",
    ]


def client_models() -> dict[str, type[Model]]:
    """Models of the client by name, without the two bases."""
    found = (each for module in (models, webhooks) for each in vars(module).values())
    return {
        each.__name__: each
        for each in found
        if isinstance(each, type) and issubclass(each, Model) and each not in (Model, BookModel)
    }


def differences(name: str, model: type[Model]) -> Iterator[str]:
    """Members, requiredness and nullability in which a model is not its schemas."""
    schemas = [SCHEMAS[each] for each in NAMES.get(name, (name,))]
    promised = {member: part for each in schemas for member, part in each["properties"].items()}
    required = {
        member
        for member in promised
        if all(member in each.get("required", ()) for each in schemas)
        if f"{name}.{member}" not in OPTIONAL
    }
    read = model.model_json_schema()
    # `id` of an event is a header's.
    members = read["properties"].keys() - ({"id"} if name == "TransferChanged" else set())
    if unlike := members ^ promised.keys():
        yield f"{name}: {sorted(unlike)} are in one of both"
    if unlike := (set(read.get("required", ())) & members) ^ required:
        yield f"{name}: {sorted(unlike)} are required in one of both"
    for member in sorted(members & promised.keys() & required):
        if is_nullable(read["properties"][member]) != is_nullable(promised[member]):
            yield f"{name}.{member}: nullable in one of both"


def is_nullable(schema: dict[str, Any]) -> bool:
    """Whether a schema allows null."""
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))
