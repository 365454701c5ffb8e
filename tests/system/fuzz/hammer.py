"""What is thrown at a server, and what came back that must not."""

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from sqlalchemy import create_engine

from tests.documented import operations
from tests.factories.app import make_app
from tests.factories.sep10 import WALLET, first, forge, second
from tests.system.fuzz.document import of_url
from tests.system.fuzz.owners import ATTEMPTS, OWNERS, TEARS, Attempt, Owner, torn

EXAMPLES = 25
"""Of one strategy, in one round."""
_DRAWN = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_KEEP = 20


@dataclass
class Findings:
    """What a run has seen."""

    requests: int = 0
    errors_500: int = 0
    broken: int = 0
    """Requests that got no answer, though the server was there."""
    undocumented: int = 0
    """Answers that are not what the document says."""
    unavailable: Counter[str] = field(default_factory=Counter)
    """What was answered 503: allowed, and little while all that the server needs is there."""
    logins: int = 0
    """That had to succeed, and did."""
    wrong: int = 0
    """Who was let in and must not be, was refused and must not be, or was taken for another."""
    shown: list[str] = field(default_factory=list)
    """The first of them, a line each."""

    def note(self, what: str) -> None:
        """Keep the first ones."""
        if len(self.shown) < _KEEP:
            self.shown.append(what)

    @property
    def is_good(self) -> bool:
        """Whether nothing was found, of something."""
        found = self.errors_500 or self.broken or self.undocumented or self.wrong
        return self.requests > 0 and not found


# What is thrown, beside what schemathesis makes of the document.

_SEGMENTS = st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode())
_CLAIMS = st.dictionaries(
    st.sampled_from(["iss", "sub", "aud", "exp", "iat", "jti", "sid", "nbf", "kid", "alg"]),
    st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3),
)


def _segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


TOKENS = st.one_of(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=300),
    st.tuples(_SEGMENTS, _SEGMENTS, _SEGMENTS).map(".".join),
    st.builds(
        lambda alg, claims, sign: ".".join([_segment({"alg": alg}), _segment(claims), sign]),
        st.sampled_from(["none", "HS256", "ES256", "EdDSA", "ES384", ""]),
        _CLAIMS,
        _SEGMENTS,
    ),
)
_GOOD = base64.b64decode(forge(first(), second()))


def _torn(cut: int, flips: list[tuple[int, int]]) -> str:
    raw = bytearray(_GOOD[: cut % len(_GOOD) + 1] if cut else _GOOD)
    for place, value in flips:
        raw[place % len(raw)] = value
    return base64.b64encode(bytes(raw)).decode()


ENVELOPES = st.one_of(
    st.builds(
        _torn,
        st.just(0) | st.integers(0, 2000),
        st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=6),
    ),
    st.binary(max_size=400).map(lambda raw: base64.b64encode(raw).decode()),
    st.text(max_size=200),
    # Deep, long, and of a length that is not there.
    st.integers(1, 8000).map(lambda n: base64.b64encode(b"\0\0\0\2" + b"\xff" * n).decode()),
)
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=120)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("Authorization", "Accept", "Accept-Encoding", "Content-Type", "Cookie", "Origin"),
            *("If-None-Match", "If-Match", "If-Modified-Since", "Range", "X-Request-Id"),
            *("X-Forwarded-For", "X-HTTP-Method-Override", "Forwarded", "Upgrade"),
            *("Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions"),
            *("Access-Control-Request-Method", "Access-Control-Request-Headers"),
        ]
    ),
    _VALUES.map(lambda text: text.strip().encode("latin-1")),
    max_size=5,
)
_PATHS = st.sampled_from(
    [
        *("/", "/v1/routes", "/v1/session", "/api/v1/orderbook", "/api/v1/stream", "/auth"),
        *("/healthz", "/readyz", "/openapi.json", "/docs", "/nothing", "/api/v1/intents"),
    ]
)
_METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])


class Hammer:
    """Throws at one server until it is told to stop."""

    def __init__(
        self,
        url: str,
        number: int,
        goes_on: Callable[[], bool],
        *,
        issue: Callable[[Owner], str],
        passphrase: str,
    ) -> None:
        """`issue` gives an owner a token; `passphrase` is of the network that is signed for."""
        self.findings = Findings()
        self._issue = issue
        self._passphrase = passphrase
        self._owners = cycle((*OWNERS, None))
        self._number = number
        self._goes_on = goes_on
        self._client = httpx.Client(base_url=url, timeout=30.0, transport=httpx.HTTPTransport())
        self._schema = of_url(url)

    def run(self, told: Callable[[Findings], None]) -> Findings:
        """Rounds, each of other examples than the last; `told` after each part of one."""
        rounds = 0
        with self._client:
            while self._goes_on():
                for throw in self._parts(self._number + rounds):
                    if not self._goes_on():
                        break
                    throw()
                    told(self.findings)
                rounds += 1
        return self.findings

    def _parts(self, number: int) -> Iterator[Callable[[], None]]:
        app = make_app(create_engine("postgresql+psycopg://not-used"))
        for operation in operations(app).values():
            has_more = operation.body or any(p.place != "header" for p in operation.parameters)
            modes = ("positive", "negative") if has_more else ("positive",)
            for mode in modes:
                yield self._described(operation.name, mode, number)
        yield self._drawn(number, ATTEMPTS, lambda attempt: self.sign_in(attempt))
        yield self._drawn(number, TOKENS, lambda token: self._send_token(token))
        yield self._drawn(number, TEARS, lambda tear: self._send_torn(*tear))
        yield self._drawn(number, ENVELOPES, lambda xdr: self._send_envelope(xdr))
        thrown = st.tuples(_METHODS, _PATHS, HEADERS)
        yield self._drawn(number, thrown, lambda said: self._send(*said[:2], headers=said[2]))

    def _described(self, name: str, mode: str, number: int) -> Callable[[], None]:
        operation = self._schema.find_operation_by_id(name)
        strategy = operation.as_strategy(generation_mode=GenerationMode(mode))
        guarded = bool(operation.definition.raw["security"])

        def throw(case: Any) -> None:
            self.findings.requests += 1
            # Packed, it would be no JSON to schemathesis.
            headers = {"Accept-Encoding": "identity"}
            owner = next(self._owners)
            if owner is not None and guarded:
                headers["Authorization"] = f"Bearer {self._issue(owner)}"
            try:
                answer = case.call(headers=headers)
            except OSError as error:
                self._broke(f"{name}: {error}")
                return
            self._look(name, answer.status_code)
            try:
                case.validate_response(answer)
            except FailureGroup as group:
                kinds = {type(each).__name__ for each in group.exceptions}
                if answer.status_code != 503 or kinds != {"ServerError"}:
                    self.findings.undocumented += 1
                    sent = f"{case.headers} {case.query} {case.body!r}"
                    said = f"{answer.status_code} {answer.text}"
                    what = f"{name} {mode}: {group.exceptions[0]}"
                    self.findings.note(f"{what[:600]}\nsent: {sent[:400]}\nanswer: {said[:400]}")

        return self._drawn(number, strategy, throw)

    def _drawn(self, number: int, strategy: Any, throw: Callable[[Any], Any]) -> Callable[[], None]:
        @seed(number)
        @_DRAWN
        @given(strategy)
        def each(value: Any) -> None:
            if self._goes_on():
                throw(value)

        return each

    def sign_in(self, attempt: Attempt) -> None:
        """From the challenge to the end of the session."""
        response = self._ask("GET", "/auth", params={"account": attempt.owner.account})
        if response is None:
            return
        challenge = response.json()["transaction"]
        body = {"transaction": attempt.envelope(challenge, self._passphrase)}
        opens = attempt.opens(challenge, self._passphrase)
        answer = self._ask("POST", "/auth", json=body, good=200 if opens else 400)
        if answer is None or not opens:
            return
        self.findings.logins += 1
        self._ask("POST", "/auth", data=body, good=400)
        token = answer.json()["token"]
        self._use(attempt.owner, token)
        headers = {"Authorization": f"Bearer {token}"}
        self._ask("DELETE", "/v1/session", headers=headers)
        self._ask("GET", "/v1/session", headers=headers, good=401)

    def _use(self, owner: Owner, token: str) -> None:
        shown = self._ask("GET", "/v1/session", headers={"Authorization": f"Bearer {token}"})
        if shown is not None and shown.json()["account"] != owner.account:
            self._is_wrong(f"{owner.account} was taken for {shown.json()['account']}")

    def _ask(
        self, method: str, path: str, *, good: int = 200, **said: Any
    ) -> httpx.Response | None:
        """The answer, if it has the status that it must have; 503 is none."""
        self.findings.requests += 1
        try:
            answer = self._client.request(method, path, **said)
        except httpx.HTTPError as error:
            self._broke(f"{method} {path}: {type(error).__name__} {error}")
            return None
        self._look(f"{method} {path}", answer.status_code)
        if answer.status_code not in (good, 503):
            self._is_wrong(f"{method} {path} {said} → {answer.status_code} {answer.text}"[:2000])
        return answer if answer.status_code == good else None

    def _send_torn(self, owner: Owner, place: int, letter: str) -> None:
        """A good token, and the same with a letter of it changed."""
        token = self._issue(owner)
        self._use(owner, token)
        if torn(token, place, letter) != token:
            self._send_token(torn(token, place, letter))

    def _send_token(self, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}".encode("latin-1")}
        for method in ("GET", "DELETE"):
            status = self._send(method, "/v1/session", headers=headers)
            if status is not None and status < 400:
                self._is_wrong(f"a forged token was taken: {token}")

    def _send_envelope(self, envelope: str) -> None:
        text = envelope.encode("utf-8", "replace").decode()
        self._send("POST", "/auth", json={"transaction": text})
        self._send("POST", "/auth", data={"transaction": text})
        self._send("GET", "/auth", params={"account": WALLET.public_key, "memo": text[:50]})

    def _send(self, method: str, path: str, **said: Any) -> int | None:
        self.findings.requests += 1
        try:
            with self._client.stream(method, path, **said) as answer:
                status = answer.status_code
                # An upgraded connection has no end to wait for.
                if status != 101:
                    answer.read()
        except (httpx.LocalProtocolError, httpx.DecodingError):
            return None
        except httpx.HTTPError as error:
            self._broke(f"{method} {path}: {type(error).__name__} {error} {said}"[:600])
            return None
        self._look(f"{method} {path}", status)
        return status

    def _is_wrong(self, what: str) -> None:
        self.findings.wrong += 1
        self.findings.note(what)

    def _look(self, what: str, status: int) -> None:
        if status == 503:
            self.findings.unavailable[what] += 1
        if status >= 500 and status != 503:
            self.findings.errors_500 += 1
            self.findings.note(f"{what} → {status}")

    def _broke(self, what: str) -> None:
        self.findings.broken += 1
        self.findings.note(what)
