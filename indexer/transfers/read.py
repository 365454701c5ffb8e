"""The one way to read the state of transfers: fold their inputs at the read.

Rows of `projections.transfer_states` only find transfers, by stage, movement or owner; decisions
and answers to clients come from here. Reasons and cost: docs/decisions/transfer-state.md.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection

from indexer.config.networks import Network
from indexer.transfers import state_machine
from indexer.transfers.fold import StageChange, TransferState, fold_transfer
from indexer.transfers.inputs import TransferInputs, TransferTerms
from indexer.transfers.load import LoadedTransfer, load_transfers
from indexer.transfers.state_machine import IllegalTransition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransferReading:
    """A transfer's inputs as this transaction sees them, and their fold."""

    loaded: LoadedTransfer
    state: TransferState
    """`ON_HOLD` where the inputs need an illegal transition."""
    illegal: str | None = None
    """The illegal transition: a bug in the fold or in a writer of rows; an operator has to look."""

    @property
    def terms(self) -> TransferTerms:
        """What was agreed."""
        return self.loaded.inputs.terms


def read_transfers(
    conn: Connection, network: Network, ids: Collection[str]
) -> list[TransferReading]:
    """The transfers' states now, in order of their ids; unknown ids are skipped.

    Before a decision, take `store.lock_transfers` first: then no other decision comes between.
    """
    return [_read(each) for each in load_transfers(conn, network, ids)]


def _read(loaded: LoadedTransfer) -> TransferReading:
    try:
        return TransferReading(loaded, fold_transfer(loaded.inputs))
    except IllegalTransition as error:
        terms = loaded.inputs.terms
        logger.error("illegal stage transfer=%s: %s", terms.id, error, extra={"transfer": terms.id})
        held = TransferState(
            stage="ON_HOLD",
            status=state_machine.status("ON_HOLD", terms.source_chain, terms.dest_chain),
            turn=state_machine.turn("ON_HOLD"),
            reason="held",
            detail="what is known of it does not fit together; an operator has to look at it",
            timeline=(StageChange("ON_HOLD", None),),
        )
        return TransferReading(loaded, held, str(error))


def new_transfer_state(terms: TransferTerms) -> TransferState:
    """The state of a transfer that this transaction creates: it has no other inputs."""
    return fold_transfer(TransferInputs(terms=terms))
