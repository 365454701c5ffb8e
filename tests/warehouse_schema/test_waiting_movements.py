"""Polls for movements under way look through those to chains of ours alone."""

from collections.abc import Callable
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
    plans = []

    def explain(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "projections.movements" in statement and not statement.startswith("EXPLAIN"):
            parameters = rest[0]
            lines = conn.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(row[0] for row in lines))

    event.listen(connection, "before_cursor_execute", explain)
    ask(connection)
    # Postgres may begin with another table of the query; then it reads movements by their keys.
    assert plans != []
    assert not any("Seq Scan on movements" in plan for plan in plans)
