"""What an operator orders back from a deposit address, and the fold would leave there.

Less than goes back by itself, a token that nobody watches, the chain's native coin: what is there
of it goes to whom the address returns money, and nowhere else. An order stands for a day.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from indexer.config.networks import Network
from indexer.errors import ConfigurationError
from indexer.transfers.fold import TransferState
from indexer.transfers.inputs import TransferInputs
from indexer.transfers.state_machine import is_terminal
from warehouse_schema.identifiers import ChainId
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.relay import refund_orders, slots

NATIVE = "native"
"""In the place of a token."""
STANDS_SECONDS = 86_400
_MARK = "order"


@dataclass(frozen=True, slots=True)
class RefundOrder:
    """One that stands."""

    id: int
    transfer: str
    token: str
    """Contract, lower-case, or `NATIVE`."""

    @property
    def key(self) -> str:
        """Of its slot."""
        return f"{self.transfer}:{self.token}:{_MARK} {self.id}"


def is_ordered(key: str) -> bool:
    """Whether a refund's key is that of an order."""
    return key.split(":")[2].startswith(_MARK)


def order_refund(conn: Connection, network: Network, transfer: str, token: str | None) -> ChainId:
    """Order a refund of the transfer's own token (None), another or `NATIVE`; on which chain.

    Raises `ConfigurationError` for a transfer that is not paid in by an address.
    """
    query = (
        select(quotes.c.source_chain, quotes.c.source_token, transfers.c.deposit_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    found = conn.execute(query).one_or_none()
    if found is None or found.deposit_address is None:
        raise ConfigurationError(f"no transfer {transfer!r} has a deposit address")
    network.chain(found.source_chain)
    wanted = {"transfer": transfer, "token": token or found.source_token}
    conn.execute(insert(refund_orders).values(wanted))
    return ChainId(found.source_chain)


def open_orders(conn: Connection, chain: ChainId) -> list[RefundOrder]:
    """Those of a chain that were not carried out, the oldest first."""
    columns = refund_orders.c
    key = func.concat(columns.transfer, ":", columns.token, f":{_MARK} ", columns.id)
    is_done = (
        select(slots.c.key)
        .where(
            slots.c.chain == chain,
            slots.c.purpose == "refund",
            slots.c.key == key,
            slots.c.outcome == "done",
        )
        .exists()
    )
    query = (
        select(columns.id, columns.transfer, columns.token)
        .join_from(refund_orders, transfers, transfers.c.id == columns.transfer)
        .join(quotes)
        .where(
            quotes.c.source_chain == chain,
            columns.ordered_at
            > func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, STANDS_SECONDS),
            ~is_done,
        )
        .order_by(columns.id)
    )
    return [RefundOrder(*row) for row in conn.execute(query)]


def reject_order(evidence: TransferInputs, progress: TransferState, token: str) -> str | None:
    """Why it must not be carried out now: it would take what may yet be carried on."""
    if token != evidence.terms.source_token:
        return None
    if not is_terminal(progress.stage):
        return f"the transfer is {progress.stage}: what is there may yet be carried on"
    if not all(each.is_final for each in evidence.matched):
        return "what was carried on may come back until it is final"
    return None
