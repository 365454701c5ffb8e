"""`python -m devnet.stellar`: run the Stellar half of the devnet until it is stopped."""

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from devnet.stellar.genesis import GENESIS_TIME, Genesis
from devnet.stellar.ledger import PROTOCOL, PROTOCOLS
from devnet.stellar.node import Clock, Node, fixed_clock, wall_clock
from devnet.stellar.registry import Remotes, unwired
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from devnet.stellar.store import OtherChain, Store

READY = "stellar devnet (a stand-in, not a Stellar node) on "
"""Text before the URL on the line printed once it listens."""
CLOCKS: dict[str, Clock] = {"wall": wall_clock, "fixed": fixed_clock}


def _evm_address(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _interval(text: str) -> float | None:
    return None if text == "manual" else float(text)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="devnet.stellar", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free one")
    parser.add_argument(
        "--interval",
        type=_interval,
        default=1.0,
        help="seconds between ledgers; 0 closes one for each transaction; manual only when asked",
    )
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--protocol", type=int, choices=PROTOCOLS, default=PROTOCOL)
    parser.add_argument("--genesis-time", type=int, default=GENESIS_TIME, help="unix seconds")
    parser.add_argument("--genesis-ledger", type=int, default=1, help="the next is served first")
    parser.add_argument("--state", type=Path, help="directory that keeps the chain")
    parser.add_argument("--retention", type=int, default=0, help="ledgers served, 0 for all")
    parser.add_argument("--token-messenger", type=_evm_address)
    parser.add_argument("--usdc", type=_evm_address)
    parser.add_argument("--oft", type=_evm_address)
    parser.add_argument("--attester", type=_evm_address, action="append", default=[])
    parser.add_argument("--domain", type=int, default=0, help="CCTP domain of the EVM side")
    parser.add_argument("--eid", type=int, default=30101, help="endpoint id of the EVM side")
    return parser.parse_args(arguments)


def _remotes(options: argparse.Namespace) -> Remotes:
    named = (options.token_messenger, options.usdc, options.oft)
    if not any(named) and not options.attester:
        return unwired()
    if not all(named) or len(options.attester) != 2:
        sys.exit("name all of --token-messenger --usdc --oft and two of --attester, or none")
    return Remotes(*named, tuple(options.attester), options.domain, options.eid)


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT; what was closed is on disk at any moment."""
    options = parse(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    genesis = Genesis(
        _remotes(options), options.genesis_time, options.protocol, options.genesis_ledger
    )
    store = None if options.state is None else Store(options.state)
    try:
        node = Node(genesis, clock=CLOCKS[options.clock], store=store)
    except OtherChain as error:
        sys.exit(str(error))
    rpc = Rpc(
        node,
        retention=options.retention,
        close_on_submit=options.interval == 0,
        close_on_friendbot=not options.interval,
    )
    server = DevnetServer(rpc, host=options.host, port=options.port, interval=options.interval)

    def stop(_: int, __: FrameType | None) -> None:
        # `shutdown` waits for the serving loop, which is this very thread.
        threading.Thread(target=server.stop).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"{READY}http://{options.host}:{server.port}", flush=True)
    server.run()
    if store is not None:
        with node.lock:
            store.close()


if __name__ == "__main__":
    main(sys.argv[1:])
