"""Accounts of the devnet: every key comes from a public phrase, so none is worth anything.

A seed is `sha256("isthmus devnet: <name>")`. Anyone who reads this file can sign for anyone.
"""

from functools import cache
from hashlib import sha256

from stellar_sdk import Asset, Keypair

from indexer.config.networks import load_network
from indexer.config.settings import devnet_passphrase

PASSPHRASE = devnet_passphrase()
NETWORK_ID = sha256(PASSPHRASE.encode()).digest()
_STANDALONE = load_network("devnet").stellar.passphrase
IS_FOR_WALLETS = PASSPHRASE != _STANDALONE
"""Wallets sign for the public networks alone (`ISTHMUS_DEVNET_PASSPHRASE`)."""
DEPLOYMENT_NETWORK_ID = sha256(_STANDALONE.encode()).digest()
"""In ids of deployed contracts: these stay those of `devnet.toml` with another passphrase."""

ROOT = "root"
VALIDATOR = "validator"
ADMIN = "admin"
USDC_ISSUER = "usdc issuer"
USDT0_ISSUER = "usdt0 issuer"
CCTP_FEES = "cctp fee recipient"
RAIL_VERIFIER = "rail verifier"
PACKET_VERIFIER = "packet verifier"
PACKET_WORKER = "packet worker"
PROTOCOL_FEES = "protocol fee recipient"
RELAYER = "relayer"
SEP10 = "sep-10"
"""Signs challenges; it needs no account."""

RESIDENTS = (
    ADMIN,
    USDC_ISSUER,
    USDT0_ISSUER,
    CCTP_FEES,
    RAIL_VERIFIER,
    PACKET_VERIFIER,
    PACKET_WORKER,
    PROTOCOL_FEES,
    RELAYER,
)
"""The accounts that exist, with XLM, from the first ledger on; the root holds the rest."""


def secret(name: str) -> bytes:
    """The 32-byte seed of a devnet identity, on Stellar or anywhere else."""
    return sha256(f"isthmus devnet: {name}".encode()).digest()


@cache
def keypair(name: str) -> Keypair:
    """The key of a devnet identity; names not listed above (takers, providers) work as well."""
    return Keypair.from_raw_ed25519_seed(secret(name))


def address(name: str) -> str:
    """The `G…` address of a devnet identity."""
    return keypair(name).public_key


USDC = Asset("USDC", address(USDC_ISSUER))
USDT0 = Asset("USDT0", address(USDT0_ISSUER))
XLM = Asset.native()
