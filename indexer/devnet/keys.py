"""The demo's keys of the API, made in its own folder: they sign tokens and challenges of a devnet.

The Stellar one follows from a public phrase as every key of the devnet does, so that wallets know
it again in each demo; the one of tokens is new in each folder.
"""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from indexer.devnet.stellar.accounts import SEP10, keypair


def make_keys(folder: Path, url: str) -> dict[str, str]:
    """The variables with which an API at `url` signs people in; what is there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    pem = generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return {
        "ISTHMUS_URL": url,
        "ISTHMUS_TOKEN_KEY_FILE": str(_kept(folder / "token.pem", pem.decode())),
        "ISTHMUS_SEP10_KEY_FILE": str(_kept(folder / "sep10", keypair(SEP10).secret)),
    }


def _kept(path: Path, text: str) -> Path:
    """A file that nobody else reads, with that text unless it is there."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(text)
    return path
