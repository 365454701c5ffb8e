"""Every reader of what clients and services send, given what nests without end.

Run as a program: on a stack of 256 KiB, with a recursion limit that stops nothing. Whichever reader
goes as deep as it is led ends the process.
"""

import base64
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flask import Flask
from jwt.utils import base64url_encode
from pydantic import TypeAdapter, ValidationError
from stellar_sdk import Account, Asset, Claimant, ClaimPredicate, TransactionBuilder, xdr

from api.auth import key_set
from api.auth.claims import MAX_TOKEN_LENGTH, BadToken, unverified_issuer
from api.auth.sep10 import ChallengeRefused
from api.errors import BadRequest, IdentityUnavailable
from api.parsing import Strict, read_body
from api.responses import OrjsonProvider
from indexer.chains.http.service import parse_json
from indexer.errors import InconsistentAnswer
from tests.factories.sep10 import PASSPHRASE, SERVER, make_sep10

STACK_BYTES = 256 * 1024


class Note(Strict):
    """A body."""

    text: Any


def main() -> list[str]:
    """Read it all; who took what must be refused."""
    sys.setrecursionlimit(10**6)
    threading.stack_size(STACK_BYTES)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: list(_taken())).result()


def _taken() -> Iterator[str]:
    for name, (read, refusal, most) in _readers().items():
        for piece in (b"[", b'{"a":', b'{"text":['):
            try:
                read(piece * (most // len(piece)))
            except refusal:
                continue
            yield f"{name} took {piece!r}"


def _readers() -> dict[str, tuple[Callable[[bytes], Any], type[Exception], int]]:
    """Name → the reader, what it must raise, and as many bytes as may come."""
    app = Flask("deep")
    token_part = MAX_TOKEN_LENGTH * 3 // 4 - 100

    def body(raw: bytes) -> None:
        with app.test_request_context(method="POST", data=raw, content_type="application/json"):
            read_body(Note)

    return {
        "a body": (body, BadRequest, 64 * 1024),
        "a token's header": (lambda raw: _token(raw, b"{}"), BadToken, token_part),
        "a token's payload": (lambda raw: _token(b"{}", raw), BadToken, token_part),
        "a key set": (key_set.parse_key_set, IdentityUnavailable, 10**6),
        "a user of the provider": (_user, ValidationError, 10**6),
        "what orjson reads": (OrjsonProvider(app).loads, ValueError, 10**6),
        "a service": (lambda raw: parse_json(raw, "a service"), InconsistentAnswer, 10**6),
        "a challenge": (lambda raw: make_sep10().read(_envelope()), ChallengeRefused, 1),
    }


def _token(header: bytes, payload: bytes) -> None:
    unverified_issuer(".".join(base64url_encode(part).decode() for part in (header, payload, b"s")))


def _user(raw: bytes) -> None:
    TypeAdapter(dict[str, Any]).validate_json(raw)


def _envelope() -> str:
    """As deep as 8 KiB of base64 can be."""
    predicate = ClaimPredicate.predicate_unconditional()
    builder = TransactionBuilder(Account(SERVER.public_key, 0), PASSPHRASE, 100)
    builder.append_create_claimable_balance_op(
        Asset.native(), "1", [Claimant(SERVER.public_key, predicate)]
    )
    builder.add_time_bounds(0, 1)
    raw = builder.build().to_xdr_object().to_xdr_bytes()
    end = xdr.ClaimPredicate(xdr.ClaimPredicateType.CLAIM_PREDICATE_UNCONDITIONAL).to_xdr_bytes()
    # NOT, of something that is there, of NOT, …
    deep = (3).to_bytes(4, "big") + (1).to_bytes(4, "big")
    head, _, rest = raw.rpartition(end)
    return base64.b64encode(head + deep * 700 + end + rest).decode()


if __name__ == "__main__":
    sys.exit("\n".join(main()) or None)
