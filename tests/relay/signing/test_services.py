"""Services whose package is not installed."""

import subprocess
import sys

import pytest

from relay.signing.services import SERVICES

_LOAD = """
import sys
sys.modules[{package!r}] = None  # As if it were not installed.
from indexer.errors import ConfigurationError
from relay.signing.services import SigningSettings, load_stellar_keys
try:
    load_stellar_keys("ISTHMUS_WEBHOOK_KMS", {text!r}, SigningSettings())
except ConfigurationError as error:
    print(error)
"""
_PACKAGES = {"aws-kms": "boto3", "gcp-kms": "google.auth", "vault": "hvac", "pkcs11": "pkcs11"}


def test_every_service_has_a_case() -> None:
    assert _PACKAGES.keys() == SERVICES.keys()


@pytest.mark.parametrize("service", _PACKAGES)
def test_missing_package_names_the_extra(service: str) -> None:
    code = _LOAD.format(package=_PACKAGES[service], text=f"{service}:a/b")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert f"pip install 'isthmus[{SERVICES[service][1]}]'" in run.stdout
