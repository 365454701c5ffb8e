"""Polls for movements under way look through those to chains of ours alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, text

from indexer.config.networks import load_network
from indexer.movements.polls import due_messages
from relay.jobs.cctp_deliveries import StellarDeliveries
from relay.jobs.oft_deliveries import OftDeliveries
from tests.factories.stellar_events import account
from warehouse_schema.projections import movements

NETWORK = load_network("devnet")
OFT_SENDS = 2_000
Ask = Callable[[Connection], Any]

ASKED: dict[str, Ask] = {
    "attestations": lambda conn: due_messages(conn, NETWORK, "iris", 0, 10),
    "packets": lambda conn: due_messages(conn, NETWORK, "lz_scan", 0, 10),
    "CCTP deliveries": lambda conn: StellarDeliveries(NETWORK.stellar).jobs(conn),
    "OFT deliveries": lambda conn: OftDeliveries(NETWORK.stellar, account("alice")).jobs(conn),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_sends_to_other_chains_are_not_looked_through(connection: Connection, ask: Ask) -> None:
    """OFT sends to chains that are not ours: they are never delivered here."""
    connection.execute(
        insert(movements),
        [
            {
                "id": f"oft:{number}",
                "mechanism": "oft",
                "group_key": str(number),
                "stage": "IN_FLIGHT",
                "source_chain": NETWORK.evm[0].id,
                "source_tx": str(number),
                "sent_at": number,
            }
            for number in range(OFT_SENDS)
        ],
    )
    connection.execute(text("ANALYZE projections.movements"))
    looked_at: list[float] = []

    def explain(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "projections.movements" in statement and not statement.startswith("EXPLAIN"):
            explained = conn.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", rest[0])
            looked_at.append(sum(movements_looked_at(explained.scalar_one()[0]["Plan"])))

    event.listen(connection, "before_cursor_execute", explain)
    ask(connection)
    assert looked_at != []
    assert sum(looked_at) < 20


def movements_looked_at(node: dict[str, Any]) -> Iterator[float]:
    """Rows of movements that each scan of a plan read, whether they passed its filter or not."""
    if node.get("Relation Name") == "movements":
        removed = node.get("Rows Removed by Filter", 0)
        yield (node["Actual Rows"] + removed) * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from movements_looked_at(child)
