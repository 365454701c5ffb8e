"""Submissions of owners, parsed and validated."""

from typing import Literal

from api.errors import BadRequest
from api.parsing import Strict, canonical_hex
from warehouse_schema.identifiers import TxHash


class NewSubmission(Strict):
    """The body of `POST /v1/transfers/{id}/submissions`."""

    kind: Literal["evm_tx", "stellar_tx"]
    hash: str | None = None
    signed_xdr: str | None = None


def read_hash(body: NewSubmission) -> TxHash:
    """The hash of an `evm_tx`. Raises `BadRequest`."""
    if body.signed_xdr is not None:
        raise BadRequest("signed_xdr is for stellar_tx: leave it out", code="BAD_SUBMISSION")
    digits = canonical_hex(body.hash or "", 64)
    if digits is None:
        raise BadRequest("hash must be 64 hex digits, as in 0x5f…", code="BAD_SUBMISSION")
    return TxHash(f"0x{digits}")


def read_signed_xdr(body: NewSubmission) -> str:
    """The envelope of a `stellar_tx`. Raises `BadRequest`."""
    if body.hash is not None:
        raise BadRequest("hash is for evm_tx: leave it out", code="BAD_SUBMISSION")
    if body.signed_xdr is None:
        raise BadRequest("signed_xdr must be the signed transaction", code="BAD_SUBMISSION")
    return body.signed_xdr
