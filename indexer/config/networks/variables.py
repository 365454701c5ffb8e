"""Names of the environment variables of one chain, as settings read them and errors name them."""

from warehouse_schema.identifiers import ChainId


def variable_suffix(chain: ChainId) -> str:
    """A chain's id as it stands in names of variables."""
    return chain.upper().replace(":", "_").replace("-", "_")


def rpc_variable(chain: ChainId) -> str:
    """Name of the variable that holds a chain's node URLs."""
    return f"ISTHMUS_RPC_{variable_suffix(chain)}"


def log_proof_variable(chain: ChainId) -> str:
    """Name of the variable that says how an EVM chain's logs are proven."""
    return f"ISTHMUS_LOG_PROOF_{variable_suffix(chain)}"
