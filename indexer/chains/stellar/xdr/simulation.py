"""Strict parser of a node's response to simulateTransaction."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stellar_sdk import xdr

from indexer.errors import CallReverted
from warehouse_schema.identifiers import Stroops

MAX_RESOURCE_FEE = Stroops(50_000_000)
"""5 XLM, a hundred times the fee of our calls. A higher fee is an error or an attack."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Return value of a call, and the data its transaction has to carry; XDR as raw bytes."""

    value: bytes
    """ScVal."""
    data: bytes
    """SorobanTransactionData: footprint, resources and their fee."""
    resource_fee: Stroops
    auth: tuple[bytes, ...]
    """SorobanAuthorizationEntry, each with its call tree."""


def parse_simulation(response: Mapping[str, Any]) -> SimulationResult:
    """Parse a response.

    Raises `CallReverted` when the call would fail, `ValueError` for neither a result nor an error.
    """
    error = response.get("error")
    if isinstance(error, str) and error:
        raise CallReverted(error.partition("\n")[0][:200])
    if response.get("restorePreamble"):
        # Since protocol 23 archived entries are restored automatically; older nodes ask for it.
        raise CallReverted("entries of the contract are archived: they have to be restored first")
    results = response.get("results")
    if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], dict):
        raise ValueError("a simulation with no result and no error")
    data, given_fee = _decode(response.get("transactionData")), response.get("minResourceFee")
    if not isinstance(given_fee, str) or not given_fee.isascii() or not given_fee.isdigit():
        raise ValueError(f"minResourceFee is {given_fee!r:.40}")
    fee = int(given_fee)
    try:
        fee_in_data = xdr.SorobanTransactionData.from_xdr_bytes(data).resource_fee.int64
    except EOFError as error:
        raise ValueError(f"transactionData is cut off: {error}") from error
    if fee_in_data != fee or not 0 <= fee <= MAX_RESOURCE_FEE:
        raise ValueError(f"a resource fee of {fee} stroops, {fee_in_data} in the data")
    auth = results[0].get("auth") or []
    if not isinstance(auth, list):
        raise ValueError("auth is no list")
    value = _decode(results[0].get("xdr"))
    return SimulationResult(value, data, Stroops(fee), tuple(map(_decode, auth)))


def _decode(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("no XDR where there has to be some")
    return base64.b64decode(value, validate=True)


def called_function(envelope: bytes) -> str | None:
    """Contract function that a transaction (XDR) calls; None if it calls none."""
    transaction = xdr.TransactionEnvelope.from_xdr_bytes(envelope).v1
    if transaction is None or len(transaction.tx.operations) != 1:
        return None
    call = transaction.tx.operations[0].body.invoke_host_function_op
    invoked = None if call is None else call.host_function.invoke_contract
    return None if invoked is None else invoked.function_name.sc_symbol.decode()
