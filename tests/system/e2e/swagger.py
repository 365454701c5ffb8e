"""Sends the example requests of a served OpenAPI document, as `/docs` does."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from tests.documented import violations

Json = dict[str, Any]
KEY = "Idempotency-Key"


@dataclass(frozen=True)
class Endpoint:
    """An operation of the document with its place."""

    method: str
    path: str
    described: Json


class Swagger:
    """Executes operations with their examples; members that only a previous answer has come by its
    links, and signatures from `wallet`.

    `wallet`: operation → function of (this, body, parameters) that returns the body to send.
    """

    def __init__(
        self,
        document: Json,
        http: httpx.Client,
        wallet: Mapping[str, Callable[["Swagger", Json, Json], Json]],
    ) -> None:
        self.document = document
        self.operations = dict(_operations(document))
        self.token = ""
        self._http = http
        self._wallet = wallet
        self._keys: set[str] = set()

    def send(self, name: str, **known: str) -> httpx.Response:
        """The answer. `known` are parameters that take the place of links."""
        endpoint = self.operations[name]
        content = endpoint.described.get("requestBody", {}).get("content", {})
        [media] = content.values() or [{}]
        body: Json = dict(media.get("example", {}))
        parameters = {
            each["name"]: each["example"]
            for each in endpoint.described["parameters"]
            if "example" in each
        }
        self._follow_links(name, body, parameters, known)
        if name in self._wallet:
            body = self._wallet[name](self, body, parameters)
        return self._execute(endpoint, body, parameters)

    def _follow_links(self, name: str, body: Json, parameters: Json, known: Json) -> None:
        found = _source(self.document, name)
        if known or found is None:
            parameters.update(known)
            return
        source, link = found
        answer = self.send(source).json()
        parameters.update(_values(link.get("parameters", {}), answer))
        body.update(_values(link.get("requestBody", {}), answer))

    def _execute(self, endpoint: Endpoint, body: Json, parameters: Json) -> httpx.Response:
        places = {each["name"]: each["in"] for each in endpoint.described["parameters"]}
        headers = {name: str(v) for name, v in parameters.items() if places[name] == "header"}
        if headers.get(KEY) in self._keys:
            headers[KEY] = str(uuid4())
        self._keys.add(headers.get(KEY, ""))
        if endpoint.described["security"]:
            headers["Authorization"] = f"Bearer {self.token}"
        path = endpoint.path
        for name, value in parameters.items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        query = {name: v for name, v in parameters.items() if places[name] == "query"}
        return self._http.request(
            endpoint.method, path, params=query, headers=headers, json=body or None
        )

    def problems(self, name: str, answer: httpx.Response) -> list[str]:
        """What of an answer is refused or not documented."""
        what = f"{name}: {answer.status_code} {answer.text[:300]}"
        responses = self.operations[name].described["responses"]
        if answer.status_code >= 400 or str(answer.status_code) not in responses:
            return [what]
        content = responses[str(answer.status_code)].get("content", {})
        media_type = answer.headers["Content-Type"].partition(";")[0]
        if media_type not in content:
            return [f"{what}: is {media_type}"]
        if media_type != "application/json":
            return []
        schemas = self.document["components"]["schemas"]
        return [
            f"{what}: {each}"
            for each in violations(answer.json(), content[media_type]["schema"], schemas)
        ]


def _operations(document: Json) -> Iterator[tuple[str, Endpoint]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield described["operationId"], Endpoint(method.upper(), path, described)


def _source(document: Json, name: str) -> tuple[str, Json] | None:
    """The operation whose answer links to this one, and the link."""
    for source, endpoint in _operations(document):
        for response in endpoint.described["responses"].values():
            if name in response.get("links", {}):
                return source, response["links"][name]
    return None


def _values(expressions: Mapping[str, str], answer: Json) -> Json:
    """`$response.body#/id` → the member `id`."""
    return {
        name: answer[expression.removeprefix("$response.body#/")]
        for name, expression in expressions.items()
    }
