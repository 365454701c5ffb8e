"""What a trial of a contract call found: a node's answer to simulateTransaction, read strictly."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stellar_sdk import xdr

MAX_RESOURCE_FEE = 50_000_000
"""Stroops: 5 XLM. Calls of ours cost a hundredth of it; who asks for more is wrong or lies."""
_CONTRACT_ERROR = re.compile(r"Error\(Contract, #(\d+)\)")


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a call returns now, and what its transaction has to carry; XDR as raw bytes."""

    value: bytes
    """ScVal."""
    data: bytes
    """SorobanTransactionData: footprint, resources and their fee."""
    resource_fee: int
    """Stroops."""
    auth: tuple[bytes, ...]
    """SorobanAuthorizationEntry, each with its call tree."""


@dataclass(frozen=True, slots=True)
class SimulationFailure:
    """The call fails as things stand; `code` is the error of the contract that refused, if one."""

    message: str
    code: int | None


def parse_simulation(answer: Mapping[str, Any]) -> SimulationResult | SimulationFailure:
    """Read an answer. Raises `ValueError` for one that is neither a result nor an error."""
    error = answer.get("error")
    if isinstance(error, str) and error:
        return _trapped(error)
    if answer.get("restorePreamble"):
        # Archived entries come back by themselves since protocol 23; who says else is older.
        return SimulationFailure(
            "entries of the contract are archived: they have to be restored first", None
        )
    results = answer.get("results")
    if not isinstance(results, list) or len(results) != 1 or not isinstance(results[0], dict):
        raise ValueError("a simulation with no result and no error")
    data = _bytes(answer.get("transactionData"))
    fee = _fee(answer.get("minResourceFee"))
    _check_data(data, fee)
    auth = results[0].get("auth") or []
    if not isinstance(auth, list):
        raise ValueError("auth is no list")
    return SimulationResult(_bytes(results[0].get("xdr")), data, fee, tuple(map(_bytes, auth)))


def _trapped(error: str) -> SimulationFailure:
    found = _CONTRACT_ERROR.search(error)
    return SimulationFailure(
        error.partition("\n")[0][:200], None if found is None else int(found[1])
    )


def _check_data(data: bytes, fee: int) -> None:
    try:
        said = xdr.SorobanTransactionData.from_xdr_bytes(data).resource_fee.int64
    except EOFError as error:
        raise ValueError(f"transactionData is cut off: {error}") from error
    if said != fee or not 0 <= fee <= MAX_RESOURCE_FEE:
        raise ValueError(f"a resource fee of {fee} stroops, {said} in the data")


def _fee(value: object) -> int:
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        raise ValueError(f"minResourceFee is {value!r:.40}")
    return int(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("no XDR where there has to be some")
    return base64.b64decode(value, validate=True)


def called_function(envelope: bytes) -> str | None:
    """The contract function that a transaction (XDR) calls; None if it calls none."""
    transaction = xdr.TransactionEnvelope.from_xdr_bytes(envelope).v1
    if transaction is None or len(transaction.tx.operations) != 1:
        return None
    call = transaction.tx.operations[0].body.invoke_host_function_op
    asked = None if call is None else call.host_function.invoke_contract
    return None if asked is None else asked.function_name.sc_symbol.decode()
