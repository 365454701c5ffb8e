"""simulateTransaction in the format of Stellar RPC: a failure is in `error`."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from stellar_sdk import xdr

from devnet.stellar.host import InvocationFailed
from devnet.stellar.node import Node
from devnet.stellar.simulation import AuthMode, CannotSimulate, Change, Simulation


def simulate_transaction(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    """Try a transaction; it changes nothing and needs no signature.

    `useUpgradedAuth` is not looked at: the devnet knows the older credentials alone.
    """
    latest = node.latest.sequence
    try:
        leeway = _leeway(params)
        simulation = node.simulate(_envelope(node, params), _mode(params))
    except CannotSimulate as error:
        return {"error": str(error), "latestLedger": latest}
    answer: dict[str, Any] = {
        "events": [event.to_xdr() for event in simulation.events],
        "latestLedger": latest,
    }
    if simulation.failure is not None:
        return {**answer, "error": _error_text(simulation.failure)}
    return {**answer, **_outcome(simulation, leeway)}


def _envelope(node: Node, params: Mapping[str, Any]) -> xdr.TransactionEnvelope:
    try:
        return node.envelope(params.get("transaction", ""))
    except (ValueError, EOFError, TypeError) as error:
        raise CannotSimulate("Could not unmarshal transaction") from error


def _mode(params: Mapping[str, Any]) -> AuthMode:
    try:
        return AuthMode(params.get("authMode") or "")
    except ValueError as error:
        modes = ",".join(mode for mode in AuthMode if mode)
        raise CannotSimulate(f"optional 'authMode' must be one of {modes} when included") from error


def _leeway(params: Mapping[str, Any]) -> int:
    config = params.get("resourceConfig")
    wanted = config.get("instructionLeeway") if isinstance(config, dict) else None
    if wanted is not None and (not isinstance(wanted, int) or not 0 <= wanted < 2**31):
        raise CannotSimulate("instructionLeeway must be a whole number")
    return wanted or 0


def _outcome(simulation: Simulation, leeway: int) -> dict[str, Any]:
    data = simulation.with_leeway(leeway)
    return {
        "transactionData": data.to_xdr(),
        "minResourceFee": str(data.resource_fee.int64),
        "results": [
            {
                "auth": [entry.to_xdr() for entry in simulation.auth],
                "xdr": simulation.value.to_xdr(),
            }
        ],
        "stateChanges": [_change(change) for change in simulation.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "type": _kind(change),
        "key": _b64(change.key),
        "before": None if change.before is None else _b64(change.before),
        "after": None if change.after is None else _b64(change.after),
    }


def _kind(change: Change) -> str:
    if change.before is None:
        return "created"
    return "deleted" if change.after is None else "updated"


def _b64(raw: bytes) -> str:
    return b64encode(raw).decode()


def _error_text(failure: InvocationFailed) -> str:
    """As the host words an error: its type and code, then the newest event first."""
    error = failure.error
    kind = error.type.name.removeprefix("SCE_").capitalize()
    if error.contract_code is not None:
        name = f"Error({kind}, #{error.contract_code.uint32})"
    else:
        assert error.code is not None
        words = error.code.name.removeprefix("SCEC_").split("_")
        name = f"Error({kind}, {''.join(word.capitalize() for word in words)})"
    where = f"contract:{failure.contract}, " if failure.contract else ""
    return (
        f"HostError: {name}\n\nEvent log (newest first):\n"
        f'   0: [Diagnostic Event] {where}topics:[error, {name}], data:"{failure}"\n'
    )
