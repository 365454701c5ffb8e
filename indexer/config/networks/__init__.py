"""A network: which chains it has, where its contracts are, and when its blocks are finalized."""

from indexer.config.networks.chains import Chain as Chain
from indexer.config.networks.chains import EvmChain as EvmChain
from indexer.config.networks.chains import LogProof as LogProof
from indexer.config.networks.chains import Network as Network
from indexer.config.networks.chains import StellarChain as StellarChain
from indexer.config.networks.chains import confirmations_variable as confirmations_variable
from indexer.config.networks.chains import log_proof_variable as log_proof_variable
from indexer.config.networks.chains import operator_variable as operator_variable
from indexer.config.networks.chains import parse_log_proof as parse_log_proof
from indexer.config.networks.chains import rpc_variable as rpc_variable
from indexer.config.networks.chains import start_variable as start_variable
from indexer.config.networks.chains import variable_suffix as variable_suffix
from indexer.config.networks.file import load_network as load_network
