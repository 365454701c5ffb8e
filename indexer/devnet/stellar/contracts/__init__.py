"""The contracts of the devnet, one state machine a file.

They keep the functions, events, units and error codes of the contracts that they stand for.
"""

from indexer.devnet.stellar.contracts.cctp_forwarder import CctpForwarder
from indexer.devnet.stellar.contracts.cctp_messenger import TokenMessengerMinter
from indexer.devnet.stellar.contracts.cctp_transmitter import MessageTransmitter
from indexer.devnet.stellar.contracts.escrow import Escrow
from indexer.devnet.stellar.contracts.oft import Endpoint, Oft
from indexer.devnet.stellar.contracts.rail_terms import RailTerms
from indexer.devnet.stellar.host import Contract

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
"""What the devnet can deploy, by the hash that stands for its Wasm."""
