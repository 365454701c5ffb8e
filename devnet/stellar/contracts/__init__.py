"""The contracts of the devnet, one state machine a file.

They keep the functions, events, units and error codes of the contracts that they stand for.
"""

from devnet.stellar.contracts.cctp_forwarder import CctpForwarder
from devnet.stellar.contracts.cctp_messenger import TokenMessengerMinter
from devnet.stellar.contracts.cctp_transmitter import MessageTransmitter
from devnet.stellar.contracts.escrow import Escrow
from devnet.stellar.contracts.oft import Endpoint, Oft
from devnet.stellar.contracts.rail_terms import RailTerms
from devnet.stellar.host import Contract

DEPLOYABLE: tuple[type[Contract], ...] = (
    RailTerms,
    Escrow,
    MessageTransmitter,
    TokenMessengerMinter,
    CctpForwarder,
    Endpoint,
    Oft,
)

CONTRACTS: dict[bytes, type[Contract]] = {kind.code_hash(): kind for kind in DEPLOYABLE}
"""Contracts that the devnet can deploy, by the hash that stands for their Wasm."""
