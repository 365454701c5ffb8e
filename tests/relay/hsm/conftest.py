"""A token of SoftHSM2, Debian's PKCS#11 HSM in software."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pkcs11
import pytest
from pkcs11 import Attribute, KeyType, Mechanism
from pkcs11.util.ec import encode_named_curve_parameters

_LIBRARIES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")
PIN = "246810"
TOKEN = "isthmus"
_ED25519 = bytes.fromhex("130c656477617264733235353139")
"""CKA_EC_PARAMS: PrintableString `edwards25519` (PKCS#11 3.0, 2.3.5)."""


@dataclass(frozen=True)
class Hsm:
    """A token with an EVM and a Stellar key, and one on a curve that no chain of ours has."""

    library: str
    pin_file: str

    def variables(self, **more: str) -> dict[str, str]:
        """Variables of the relay that lead to the token."""
        return {
            "ISTHMUS_PKCS11_MODULE": self.library,
            "ISTHMUS_PKCS11_PIN_FILE": self.pin_file,
            **more,
        }


@pytest.fixture(scope="session")
def hsm(tmp_path_factory: pytest.TempPathFactory) -> Hsm:
    """The library reads its configuration once in a process, so there is one token for all tests.

    Fails with the fix where SoftHSM is not installed.
    """
    library = next((each for each in _LIBRARIES if Path(each).exists()), None)
    if library is None:
        pytest.fail("no SoftHSM on this machine: install Debian's softhsm2, or run .ci/run as root")
    folder = tmp_path_factory.mktemp("hsm")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder}/tokens\n")
    (folder / "pin").write_text(PIN + "\n")
    os.environ["SOFTHSM2_CONF"] = str(folder / "softhsm2.conf")
    arguments = ["--init-token", "--free", "--label", TOKEN, "--pin", PIN, "--so-pin", "13579"]
    subprocess.run(["softhsm2-util", *arguments], check=True, capture_output=True, timeout=60)
    with pkcs11.lib(library).get_token(token_label=TOKEN).open(rw=True, user_pin=PIN) as session:
        for label, key_type, parameters, mechanism in (
            ("evm", KeyType.EC, encode_named_curve_parameters("secp256k1"), None),
            ("stellar", KeyType.EC_EDWARDS, _ED25519, Mechanism.EC_EDWARDS_KEY_PAIR_GEN),
            ("p256", KeyType.EC, encode_named_curve_parameters("secp256r1"), None),
        ):
            domain = session.create_domain_parameters(
                key_type, {Attribute.EC_PARAMS: parameters}, local=True
            )
            domain.generate_keypair(mechanism=mechanism, store=True, label=label)
    return Hsm(library, str(folder / "pin"))
