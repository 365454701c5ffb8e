"""The demo's keys, made in its own folder: those of the API sign tokens and challenges, those of
the relay pay for its transactions. Only these two processes get their paths.

The Stellar one follows from a public phrase as every key of the devnet does, so that wallets
recognise it in each demo; the key of tokens is new in each folder.
"""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from devnet.evm import dev_account
from devnet.local_http import HOST
from devnet.stellar.accounts import IS_FOR_WALLETS, SEP10, keypair
from indexer.config.networks import Network
from indexer.config.settings import variable_suffix
from warehouse_schema.identifiers import EvmAddress
from warehouse_schema.known_variables import find_variable

RELAY = "relay"
"""Devnet identity of the relay on Stellar."""
SPONSOR = "sponsor"
"""And of its sponsor of trustlines."""
WEBHOOKS = "webhooks"
"""Signs webhooks; it needs no account."""
WEB_AUTH_DOMAIN = HOST if IS_FOR_WALLETS else None
"""npm's wallet SDK takes no port in the name of the server; other libraries want it."""
RELAY_ACCOUNT = 6
"""Its account on the EVM chain, by index."""


def relay_account() -> EvmAddress:
    """The relay's account on the EVM chain, which moves deposits on."""
    return EvmAddress(dev_account(RELAY_ACCOUNT).address.lower())


def public_webhook_key() -> str:
    """Public key that verifies webhooks, in the format of Standard Webhooks."""
    return f"whpk_{b64encode(keypair(WEBHOOKS).raw_public_key()).decode()}"


def make_keys(folder: Path, url: str) -> dict[str, str]:
    """The variables with which an API at `url` signs people in; what is there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    pem = generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return {
        "ISTHMUS_URL": url,
        **({} if WEB_AUTH_DOMAIN is None else {"ISTHMUS_WEB_AUTH_DOMAIN": WEB_AUTH_DOMAIN}),
        "ISTHMUS_TOKEN_KEY_FILE": str(_kept(folder / "token.pem", pem.decode())),
        "ISTHMUS_WEBHOOK_PUBLIC_KEY": public_webhook_key(),
        "ISTHMUS_SEP10_KEY_FILE": str(_kept(folder / "sep10", keypair(SEP10).secret)),
    }


def make_relay_keys(folder: Path, network: Network) -> dict[str, str]:
    """The variables with which a relay signs on both chains of the devnet.

    On the EVM chain it is one of the accounts that have ether, used by nothing else. The Stellar
    accounts have to be funded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    evm = _kept(folder / "relay-evm", dev_account(RELAY_ACCOUNT).key.hex())
    stellar = _kept(folder / "relay-stellar", keypair(RELAY).secret)
    sponsor = _kept(folder / "relay-sponsor", keypair(SPONSOR).secret)
    webhooks = _kept(folder / "webhooks", keypair(WEBHOOKS).secret)
    [chain] = network.evm
    return {
        f"ISTHMUS_RELAY_KEY_{variable_suffix(chain.id)}_FILE": str(evm),
        f"ISTHMUS_RELAY_KEY_{variable_suffix(network.stellar.id)}_FILE": str(stellar),
        f"ISTHMUS_RELAY_SPONSOR_{variable_suffix(network.stellar.id)}_FILE": str(sponsor),
        "ISTHMUS_WEBHOOK_KEY_FILE": str(webhooks),
    }


def in_files(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with each secret in a file of the folder, as processes read it."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, text in variables.items():
        known = find_variable(name)
        if text and known is not None and known.protection == "secret":
            file = folder / name
            file.touch(mode=0o600)
            file.write_text(text)
            found[f"{name}_FILE"] = str(file)
        else:
            found[name] = text
    return found


def _kept(path: Path, text: str) -> Path:
    """A file with that text, readable by its owner only; an existing file is kept."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(text)
    return path
