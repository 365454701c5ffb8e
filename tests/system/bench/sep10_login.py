"""Logins a second by SEP-10: a challenge asked for, signed, and turned into a token.

The API on two workers, a durable Postgres, and the development network's node on the same machine.
Every account is on the ledger, so each login reads its signers there. The wallets' own work, mostly
signing, is on the same cores and is told apart (`wallets_share`).
"""

import http.client
import json
import os
import statistics
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import quote

from stellar_sdk import Keypair, xdr

from devnet import services
from devnet.keys import make_keys
from devnet.local_http import HOST
from devnet.stellar.accounts import NETWORK_ID
from devnet.supervisor import free_port
from devnet.world import Pace
from tests.system.bench.orderbook import Server
from tests.system.bench.site import milliseconds, percentile, print_line, site

WALLETS = 8
"""Accounts, each with a connection of its own and one login under way."""
SECONDS = 8.0
SETTLING = 0.2
WORKERS = 2


def measure() -> dict[str, Any]:
    """`per_s`, and what a login takes of whom."""
    load_before = os.getloadavg()[0]
    with site(Pace()) as running:
        wallets = [running.world.stellar.open_account(f"bench wallet {n}") for n in range(WALLETS)]
        ports = services.Ports(api=free_port(), page=0, code=0)
        keys = make_keys(running.settings.home / "keys", ports.api_url)
        # All wallets are one address here.
        variables = {**running.variables, **keys, "ISTHMUS_LIMIT_SIGN_IN": "off"}
        spec = services.api(ports, variables, workers=WORKERS)
        server = Server(running.supervisor.run(spec), ports.api)
        print_line(f"logging in with {WALLETS} wallets for {SECONDS:g} s")
        _run(wallets, ports.api, SECONDS * SETTLING)
        began, cpu, own = time.monotonic(), server.cpu, time.process_time()
        took = _run(wallets, ports.api, SECONDS * (1 - SETTLING))
        seconds, cpu = time.monotonic() - began, server.cpu - cpu
        own = time.process_time() - own
    return {
        "per_s": round(len(took) / seconds, 1),
        "p50_ms": milliseconds(statistics.median(took)),
        "p99_ms": milliseconds(percentile(took, 0.99)),
        "server_cpu_ms": milliseconds(cpu / len(took)),
        "wallets_share": round(own / seconds, 2),
        "logins": len(took),
        "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }


def _run(wallets: list[Keypair], port: int, seconds: float) -> list[float]:
    """Seconds of each login. Raises what a wallet's thread met."""
    end = time.monotonic() + seconds
    took: list[float] = []
    errors: list[Exception] = []

    def live(wallet: Keypair) -> None:
        try:
            took.extend(_logins(wallet, port, end))
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(wallet,)) for wallet in wallets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return took


def _logins(wallet: Keypair, port: int, end: float) -> Iterator[float]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    for _ in count():
        began = time.monotonic()
        if began > end:
            break
        challenge = _asked(connection, "GET", f"/auth?account={wallet.public_key}")["transaction"]
        body = f"transaction={quote(_signed(challenge, wallet), safe='')}"
        _asked(connection, "POST", "/auth", body)
        yield time.monotonic() - began
    connection.close()


def _signed(challenge: str, wallet: Keypair) -> str:
    """The envelope with the wallet's signature, by as little work as there is."""
    raw = b64decode(challenge)
    # Between the envelope's type and its signatures: their number and one of ours, 76 bytes.
    unsigned, ours = raw[4:-76], raw[-72:]
    tagged = xdr.EnvelopeType.ENVELOPE_TYPE_TX.to_xdr_bytes() + unsigned
    signature = wallet.sign_decorated(sha256(NETWORK_ID + tagged).digest())
    both = (2).to_bytes(4, "big") + ours + signature.to_xdr_object().to_xdr_bytes()
    return b64encode(raw[:4] + unsigned + both).decode()


def _asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
) -> dict[str, Any]:
    headers = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
    return dict(json.loads(text))
