"""What the replay found, as a page to read and as one line for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tests.system.replay.findings import Findings, WarehouseFindings
from tests.system.replay.ingest import WATCHED
from tests.system.replay.messages import ReplayedMessage
from tests.system.replay.movements import Amount, ReplayedMovement
from tests.system.replay.scaffolding import MARK

_KINDS = ("transfer", "mint", "burn", "clawback", "set_authorized", "fee")
"""Asset events, in the order of the table's columns."""

_GENUINE = f"""\
Genuine: every ledger of the first table, proven by its header, transaction set, result and
invocation hashes (events of classic operations have none); every event's contract, topics and
data; transaction hashes, block numbers, log indexes and LayerZero block hashes as recorded.
Made up: headers and parents around events that were recorded without their ledger or block, and
a hash where none was recorded. A made-up hash has {MARK} in it; a time that was not recorded is 0.
Rebuilt: the headers of the second table, each hashed anew; everything behind them is genuine.
Not brought in: one OFTReceived without contract, block and transaction; receipts made on a local
chain (synthetic)."""


def page(findings: Findings) -> str:
    """All tables."""
    parts = [
        ("Recorded data, read as if today", _GENUINE),
        ("Whole pubnet ledgers", _ledgers(findings)),
        ("The same ledgers with headers of newer protocols", _newer(findings)),
        ("Asset events in them (fees of failed transactions included)", _asset_events(findings)),
        ("Asset events whose contract id did not match", _look_alikes(findings)),
        ("What each warehouse holds", _chains(findings)),
        ("Events by kind", _events(findings)),
        ("Attested CCTP messages", _messages(findings)),
        ("Movements, with the amount on both sides", _movements(findings)),
        ("Do the facts join, and do the projections follow from them", _checks(findings)),
    ]
    return "\n\n".join(f"{title}\n{'=' * len(title)}\n{body}" for title, body in parts)


def summary(findings: Findings) -> dict[str, Any]:
    """The counts and amounts of the page, in JSON's terms."""
    ledgers = findings.ledgers
    return {
        "ledgers": len(ledgers),
        "transactions": sum(each.transactions for each in ledgers),
        "successful_transactions": sum(each.successful for each in ledgers),
        "contract_events": sum(each.events + each.failed_fees for each in ledgers),
        "asset_events": dict(_asset_totals(findings)),
        "asset_events_of_successful_transactions": sum(
            each.movements.total() - each.failed_fees for each in ledgers
        ),
        "invocations": sum(each.proof.invocations for each in ledgers),
        "unproven_invocations": sum(len(each.proof.unproven) for each in ledgers),
        "newer_protocols": {
            str(each.protocol): {
                "ledgers": len(each.ledgers),
                "transactions": sum(ledger.transactions for ledger in each.ledgers),
                "contract_events": sum(
                    ledger.events + ledger.failed_fees for ledger in each.ledgers
                ),
                "with_milliseconds": each.with_milliseconds,
                "same_as_recorded": each.is_same,
            }
            for each in findings.newer
        },
        "look_alikes": [
            {"contract": each.contract, "asset": each.claimed, "tx": each.seen.tx_hash}
            for ledger in ledgers
            for each in ledger.look_alikes
        ],
        "networks": {each.network.name: _warehouse_summary(each) for each in findings.warehouses},
        "messages": [_message_summary(each) for each in findings.messages],
        "movements": [_movement_summary(each) for each in findings.movements],
    }


# Whole ledgers


def _ledgers(findings: Findings) -> str:
    rows: list[Sequence[object]] = [
        (
            each.height,
            each.protocol,
            each.transactions,
            each.successful,
            each.events,
            each.failed_fees,
            each.proof.invocations,
            len(each.proof.unproven),
        )
        for each in findings.ledgers
    ]
    totals = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)]
    return _table(
        (
            *("ledger", "protocol", "transactions", "successful", "events", "fees of failed"),
            *("invocations", "whose events are unproven"),
        ),
        [*rows, ("all", "", *totals)],
    )


def _newer(findings: Findings) -> str:
    return _table(
        (
            *("protocol", "ledgers", "transactions", "events", "fees of failed"),
            *("with milliseconds", "same as recorded"),
        ),
        [
            (
                each.protocol,
                len(each.ledgers),
                sum(ledger.transactions for ledger in each.ledgers),
                sum(ledger.events for ledger in each.ledgers),
                sum(ledger.failed_fees for ledger in each.ledgers),
                each.with_milliseconds,
                "yes" if each.is_same else "NO",
            )
            for each in findings.newer
        ],
    )


def _asset_events(findings: Findings) -> str:
    rows: list[Sequence[object]] = [
        (
            each.height,
            *(each.movements[kind] for kind in _KINDS),
            each.movements.total(),
            each.other_events,
            len(each.look_alikes),
        )
        for each in findings.ledgers
        if each.events
    ]
    totals = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    return _table(
        ("ledger", *_KINDS, "contract matches", "no asset event", "look-alikes"),
        [*rows, ("all", *totals)],
    )


def _look_alikes(findings: Findings) -> str:
    rows = [
        (each.contract, each.claimed, each.seen.height, each.seen.tx_hash)
        for ledger in findings.ledgers
        for each in ledger.look_alikes
    ]
    if not rows:
        return "none: every contract that names an asset in these ledgers is that asset's own"
    return _table(("contract", "asset it names", "ledger", "transaction"), rows)


def _asset_totals(findings: Findings) -> Counter[str]:
    totals: Counter[str] = Counter()
    for ledger in findings.ledgers:
        totals += ledger.movements
    return totals


# Warehouses


def _chains(findings: Findings) -> str:
    rows = [
        (
            warehouse.network.name,
            each.chain,
            each.blocks,
            each.genuine_blocks,
            each.blocks - each.genuine_blocks,
            each.raw_events,
            each.transactions,
            each.made_up_transactions,
        )
        for warehouse in findings.warehouses
        for each in warehouse.chains
    ]
    headings = ("network", "chain", "blocks", "genuine hash", "made-up hash")
    table = _table((*headings, "events of ours", "transactions", "made-up hash"), rows)
    return (
        f"{table}\nFor the replay pubnet's file watches one account more, for its USDC: {WATCHED}"
    )


def _events(findings: Findings) -> str:
    rows: list[tuple[str, str, int, str]] = []
    for warehouse in findings.warehouses:
        name = warehouse.network.name
        rows += [(name, kind, count, "typed") for kind, count in _typed(warehouse).items()]
        rows += [
            (name, kind, count, "kept raw, no type needed")
            for kind, count in sorted(warehouse.undecoded.items())
        ]
        if warehouse.undecodable:
            rows.append((name, "", warehouse.undecodable, "COULD NOT BE DECODED"))
    return _table(("network", "event", "number", "decoded"), rows)


def _typed(warehouse: WarehouseFindings) -> dict[str, int]:
    return dict(sorted(Counter(type(event).__name__ for event in warehouse.events).items()))


def _checks(findings: Findings) -> str:
    lines: list[str] = []
    for warehouse in findings.warehouses:
        name = warehouse.network.name
        lines += [
            f"{name}: projections equal a refold of the facts"
            if not warehouse.differences
            else f"{name}: projections DIFFER from a refold: {len(warehouse.differences)} times",
            *(f"  {each}" for each in warehouse.differences),
            f"{name}: {len(warehouse.alarms)} alarms",
            *(f"  {each}" for each in warehouse.alarms),
            f"{name}: {len(warehouse.holes)} holes (20 a chain are named), as recordings lie apart",
            *(f"  {each}" for each in warehouse.holes),
        ]
    return "\n".join(lines)


def _warehouse_summary(warehouse: WarehouseFindings) -> dict[str, Any]:
    return {
        "chains": {
            each.chain: {
                "blocks": each.blocks,
                "genuine_blocks": each.genuine_blocks,
                "raw_events": each.raw_events,
                "transactions": each.transactions,
                "made_up_transactions": each.made_up_transactions,
            }
            for each in warehouse.chains
        },
        "events": _typed(warehouse),
        "undecoded": dict(sorted(warehouse.undecoded.items())),
        "undecodable": warehouse.undecodable,
        "holes": len(warehouse.holes),
        "differences": len(warehouse.differences),
        "alarms": len(warehouse.alarms),
    }


# Messages


def _messages(findings: Findings) -> str:
    return "\n".join(line for each in findings.messages for line in _message_lines(each))


def _message_lines(each: ReplayedMessage) -> Iterator[str]:
    message, body = each.message, each.message.body
    yield f"{each.name} ({each.network})"
    if body is not None:
        yield (
            f"  domain {message.source_domain} -> {message.destination_domain},"
            f" amount {body.amount}, fee executed {body.fee_executed} of at most {body.max_fee}"
            f" (6 decimals)"
        )
    yield f"  nonce     {message.nonce}"
    yield f"  burn key  {each.burn_key}: {_seen_as(each)}"
    yield f"  attesters {_attested_by(each)}"
    if each.agrees_with_service is not None:
        agrees = "agrees" if each.agrees_with_service else "DISAGREES"
        yield f"  our reading {agrees} with the service's own"


def _seen_as(each: ReplayedMessage) -> str:
    return "equal to " + " and ".join(each.events) if each.events else "no event was recorded"


def _attested_by(each: ReplayedMessage) -> str:
    if each.attesters is None:
        return "unknown: no attestation was recorded"
    verdict = "the known two, ascending" if each.is_attested else "NOT the known ones"
    return f"{', '.join(each.attesters)}: {verdict}"


def _message_summary(each: ReplayedMessage) -> dict[str, Any]:
    return {
        "name": each.name,
        "burn_key": each.burn_key,
        "is_attested": each.is_attested,
        "agrees_with_service": each.agrees_with_service,
        "events": list(each.events),
    }


# Movements


def _movements(findings: Findings) -> str:
    return _UNITS + "\n".join(line for each in findings.movements for line in _movement_lines(each))


_UNITS = """\
Base units of the chain on that side = the same with its decimals, and in brackets who says so.
The stage is the warehouse's; - stands where too little was recorded for it to hold the movement.
"""


def _movement_lines(each: ReplayedMovement) -> Iterator[str]:
    yield f"{each.mechanism} {each.source} -> {each.destination} ({each.network}), {each.stage}"
    yield f"  sent     {_amount_text(each.sent)}"
    yield f"  arrived  {_amount_text(each.arrived)}"
    if each.fee is not None:
        yield f"  fee      {_amount_text(each.fee)}"
    for where, tx_hash in (("left in ", each.source_tx), ("came in ", each.dest_tx)):
        if tx_hash is not None:
            yield f"  {where} {tx_hash}"
    if each.note:
        yield f"  note     {each.note}"


def _amount_text(amount: Amount | None) -> str:
    return "not recorded" if amount is None else f"{amount}   [{amount.told_by}]"


def _movement_summary(each: ReplayedMovement) -> dict[str, Any]:
    return {
        "network": each.network,
        "mechanism": each.mechanism,
        "stage": each.stage,
        "source": each.source,
        "destination": each.destination,
        "sent": _amount_summary(each.sent),
        "arrived": _amount_summary(each.arrived),
        "fee": _amount_summary(each.fee),
    }


def _amount_summary(amount: Amount | None) -> dict[str, Any] | None:
    return None if amount is None else asdict(amount)


# Tables


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [tuple(headings), *(tuple(str(value) for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            value.rjust(width) if value.isdecimal() else value.ljust(width)
            for value, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
