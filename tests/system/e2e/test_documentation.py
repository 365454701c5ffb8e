"""Documentation runs as it is written against a demo: docs/first-transfer.md, the wallet's program
of docs/try-it.md, that of docs/without-the-service.md, and the examples of the OpenAPI document.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from eth_account import Account
from stellar_sdk import Keypair, TransactionEnvelope
from websockets.sync.client import connect

from devnet import circle
from devnet.bridges import DUST, Bridges
from devnet.customer_story import HOOKED
from devnet.evm import DOMAIN, STELLAR_DOMAIN
from devnet.evm_deployment import deploy
from devnet.evm_node import JsonRpc
from devnet.faucet import pay
from devnet.local_http import local_client
from devnet.stellar.accounts import PASSPHRASE, USDC, keypair
from devnet.stellar.client import DevnetClient
from devnet.stellar.registry import devnet_contracts
from devnet.world import remotes_of_evm
from tests.memory import server_folder
from tests.system.e2e.swagger import Json, Swagger
from tests.system.e2e.test_demo import PROJECT, TIMEOUT, Demo, run

PAGE = (PROJECT / "docs" / "first-transfer.md").read_text()
TRY_IT = (PROJECT / "docs" / "try-it.md").read_text()
WITHOUT = (PROJECT / "docs" / "without-the-service.md").read_text()
BLOCK = re.compile(r"(?:Save as `([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEMO = "make demo\n"
"""The block that the fixture runs."""
LANGUAGES = {"python", "js", "sh"}
AMOUNT = 5 * 10**6
"""Base units of USDC on the EVM chain."""
ARRIVED = re.compile(r"^(?:4\.9\d* USDC|499\d{5} base units) arrived$", re.MULTILINE)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with running_demo("first-transfer") as demo:
        yield demo


@contextmanager
def running_demo(name: str) -> Iterator[Demo]:
    with server_folder(name) as home:
        demo = Demo(home)
        try:
            yield demo
        finally:
            demo.stop()
        assert demo.process.returncode == 0, demo.output_text()


@pytest.mark.timeout(9 * TIMEOUT)
def test_first_transfer_runs_as_written(demo: Demo, tmp_path: Path) -> None:
    checkout_in(tmp_path)
    blocks = BLOCK.findall(PAGE)
    assert {language for _, language, _ in blocks} == LANGUAGES
    assert blocks[0] == ("", "sh", DEMO)
    shell = []
    for name, language, text in blocks[1:]:
        assert bool(name) == (language != "sh"), "a program is saved in a file, and a shell runs it"
        if name:
            (tmp_path / name).write_text(with_addresses(text, demo))
        else:
            shell.append(with_addresses(text, demo))
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(shell)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(ARRIVED.findall(done.stdout)) == 3, done.stdout
    assert done.stdout.endswith("COMPLETED\n4 USDC came back\n"), done.stdout
    assert done.stdout.count("signed\n") == 2, "approval and burn"


@pytest.mark.timeout(9 * TIMEOUT)
def test_program_of_a_wallet_sends_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [passphrase] = re.findall(r"^export (\w+)=(\w+) +# wallets", TRY_IT, re.MULTILINE)
    monkeypatch.setenv(*passphrase)
    [program] = re.findall(r"^```js\n(.*?)^```", TRY_IT, re.MULTILINE | re.DOTALL)
    assert program.count("localhost:8080") == 2
    checkout_in(tmp_path)
    with running_demo("try-it") as demo:
        host = demo.api.removeprefix("http://").replace("127.0.0.1", "localhost")
        (tmp_path / "send.mjs").write_text(program.replace("localhost:8080", host))
        sender, recipient = (new_keys(demo) for _ in range(2))
        words = ["node", "send.mjs", sender["STELLAR_KEY"], recipient["STELLAR_ADDRESS"]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith("COMPLETED "), done.stdout


@pytest.mark.timeout(9 * TIMEOUT)
@pytest.mark.parametrize("dest", ["stellar", "evm"])
def test_burn_of_no_transfer_is_delivered_as_written(demo: Demo, tmp_path: Path, dest: str) -> None:
    """The relay delivers no burn that belongs to no transfer, so the program alone can."""
    [(name, program)] = re.findall(
        r"^Save as `([\w.]+)`:\n\n```python\n(.*?)^```", WITHOUT, re.MULTILINE | re.DOTALL
    )
    (tmp_path / name).write_text(program)
    evm_url, stellar_url = chains(demo)
    keys = new_keys(demo)
    wallet, owner = Account.from_key(keys["EVM_KEY"]), Keypair.from_secret(keys["STELLAR_KEY"])
    with (
        deploy(evm_url, remotes_of_evm()) as evm,
        DevnetClient(stellar_url) as stellar,
        circle.reading(evm_url, stellar_url) as attestations,
        circle.serving(0, attestations) as iris,
    ):
        bridges, at = Bridges(evm, stellar), evm.addresses
        if dest == "stellar":
            fee = circle.fast_fee(AMOUNT)
            arriving = (AMOUNT - fee) * DUST
            burned = bridges.burn_on_evm(wallet, owner.public_key, AMOUNT, max_fee=fee)
            domain, node, key = DOMAIN, stellar_url, owner.secret
            contract = devnet_contracts().cctp_forwarder
        else:
            arriving = AMOUNT
            burned = bridges.burn_on_stellar(owner, wallet.address, AMOUNT * DUST)
            domain, node, key = STELLAR_DOMAIN, evm_url, keys["EVM_KEY"]
            contract = at.message_transmitter

        def balance() -> int:
            if dest == "evm":
                return evm.balance_of(at.usdc, wallet.address)
            return stellar.balance(owner.public_key, USDC)

        before = balance()
        done = subprocess.run(
            [str(PROJECT / ".venv/bin/python"), name, str(domain), burned.movement.source_tx],
            cwd=tmp_path,
            env={**os.environ, "IRIS": iris, "NODE": node, "CONTRACT": contract, "KEY": key},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert (done.returncode, done.stdout) == (0, "delivered\n"), done.stderr
        assert balance() - before == arriving


def new_keys(demo: Demo) -> dict[str, str]:
    """Names and values that the faucet prints for a shell."""
    evm, stellar = chains(demo)
    printed = run(demo.home, "faucet", "--new", "--evm", evm, "--stellar", stellar)
    assert printed.returncode == 0, printed.stderr
    return dict(re.findall(r"^export (\w+)=(\S+)$", printed.stdout, re.MULTILINE))


def checkout_in(folder: Path) -> None:
    """What the page uses of the project's folder."""
    for name in (".venv", "clients", "node_modules"):
        (folder / name).symlink_to((PROJECT / name).resolve())


def chains(demo: Demo) -> tuple[str, str]:
    """URLs of the EVM node and of the Stellar stand-in."""
    evm, stellar = (demo.printed(name).split(" ")[0] for name in ("EVM chain", "Stellar"))
    return evm, stellar


def with_addresses(text: str, demo: Demo) -> str:
    """The page's addresses as this demo printed them: its ports may have been taken."""
    evm, stellar = chains(demo)
    text = text.replace("faucet --new", f"faucet --new --evm {evm} --stellar {stellar}")
    return text.replace("http://127.0.0.1:8080", demo.api).replace("http://127.0.0.1:8545", evm)


@pytest.mark.timeout(9 * TIMEOUT)
def test_examples_of_the_served_document_are_answered(demo: Demo) -> None:
    [token] = re.findall(r"^ey[\w.-]+$", demo.output_text(), re.MULTILINE)
    wallet = {"signIn": sign_challenge, "submitTransaction": pay_calls(demo)}
    with local_client(demo.api, timeout=TIMEOUT) as http:
        swagger = Swagger(http.get("/openapi.json").json(), http, wallet)
        swagger.token = token
        first = [name for name in swagger.operations if name not in ("openStream", "endSession")]
        problems = [
            problem
            for name in (*first, "endSession")
            for problem in swagger.problems(name, swagger.send(name))
        ]
    assert problems == []
    assert len(first) > 25
    with connect(f"{demo.api.replace('http', 'ws')}/api/v1/stream", proxy=None) as socket:
        assert json.loads(socket.recv())


def sign_challenge(swagger: Swagger, body: Json, parameters: Json) -> Json:
    """The example's account signs the challenge of the example."""
    challenge = swagger.send("getChallenge").json()["transaction"]
    envelope = TransactionEnvelope.from_xdr(challenge, PASSPHRASE)
    envelope.sign(keypair(HOOKED))
    return {"transaction": envelope.to_xdr()}


def pay_calls(demo: Demo) -> Callable[[Swagger, Json, Json], Json]:
    """The example's payer sends the calls of the transfer's action."""
    evm, stellar = chains(demo)

    def body_of(swagger: Swagger, body: Json, parameters: Json) -> Json:
        quoted = swagger.operations["createQuote"].described["requestBody"]["content"]
        payer = quoted["application/json"]["example"]["source_address"]
        assert pay(payer, 5, evm, stellar) == 0
        action = swagger.send("showAction", transfer=parameters["transfer"]).json()["action"]
        with JsonRpc(evm) as rpc:
            rpc("anvil_impersonateAccount", payer)
            hashes = [
                rpc("eth_sendTransaction", {"from": payer, "to": call["to"], "data": call["data"]})
                for call in action["calls"]
            ]
        return body | {"hash": hashes[-1]}

    return body_of
