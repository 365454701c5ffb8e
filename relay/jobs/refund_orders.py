"""Refunds that an operator orders from a deposit address, which the fold would not send back.

For amounts below the minimum refund, tokens that are not watched, and the chain's native coin. All
that the address holds of it goes to the address's refund recipient, and nowhere else. An order is
valid for a day.
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
"""In place of a token's contract."""
VALID_SECONDS = 86_400
_MARK = "order"


@dataclass(frozen=True, slots=True)
class RefundOrder:
    """Order that is valid and not carried out."""

    id: int
    transfer: str
    token: str
    """Contract, lower-case, or `NATIVE`."""

    @property
    def key(self) -> str:
        """Key of its job."""
        return f"{self.transfer}:{self.token}:{_MARK} {self.id}"


def is_ordered(key: str) -> bool:
    """True when a refund's job key is that of an order."""
    return key.split(":")[2].startswith(_MARK)


def order_refund(conn: Connection, network: Network, transfer: str, token: str | None) -> ChainId:
    """Order a refund of the transfer's own token (None), another, or `NATIVE`; returns the chain.

    Raises `ConfigurationError` for a transfer without a deposit address.
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
    row = {"transfer": transfer, "token": token or found.source_token}
    conn.execute(insert(refund_orders).values(row))
    return ChainId(found.source_chain)


def open_orders(conn: Connection, chain: ChainId) -> list[RefundOrder]:
    """Valid orders of a chain that were not carried out, the oldest first."""
    columns = refund_orders.c
    key = func.concat(columns.transfer, ":", columns.token, f":{_MARK} ", columns.id)
    is_done = (
        select(slots.c.key)
        .where(
            slots.c.chain == chain,
            slots.c.purpose == "refund",
            slots.c.key == key,
            slots.c.outcome == "confirmed",
        )
        .exists()
    )
    validity = func.make_interval(0, 0, 0, 0, 0, 0, VALID_SECONDS)
    query = (
        select(columns.id, columns.transfer, columns.token)
        .join_from(refund_orders, transfers, transfers.c.id == columns.transfer)
        .join(quotes)
        .where(
            quotes.c.source_chain == chain,
            columns.ordered_at > func.clock_timestamp() - validity,
            ~is_done,
        )
        .order_by(columns.id)
    )
    return [RefundOrder(*row) for row in conn.execute(query)]


def reject_order(inputs: TransferInputs, state: TransferState, token: str) -> str | None:
    """Reason why an order must not be carried out now: it would take what may yet move on."""
    if token != inputs.terms.source_token:
        return None
    if not is_terminal(state.stage):
        return f"the transfer is {state.stage}: its deposit may yet move on"
    if not all(each.is_final for each in inputs.matched):
        return "what moved on may come back until it is final"
    return None
