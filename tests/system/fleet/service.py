"""The service's processes on an API machine: the same on each, so that each has a standby."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from devnet.evm import dev_account
from devnet.keys import RELAY_ACCOUNT, SPONSOR, WEBHOOKS, in_files, make_keys, relay_account
from devnet.stellar.accounts import keypair
from indexer.config.settings import operator_variable, variable_suffix
from tests.system.chaos.chains import CHAINS, EVM, STELLAR
from tests.system.chaos.transfers.crew import Spec
from tests.system.fleet.fleet import api_spec
from tests.system.fleet.hosts import Host
from tests.system.fleet.outside import RELAYS, Outside
from warehouse_schema.identifiers import ChainId

FOLLOWERS = {chain: f"follower-{chain.partition(':')[0]}" for chain in CHAINS}
"""Chain → name of its follower's process."""


def service_specs(
    outside: Outside,
    host: Host,
    databases: Mapping[str, str],
    api_url: str,
    folder: Path,
    tokens: Callable[[Path], Mapping[str, str]],
    workers: int,
) -> Iterator[Spec]:
    """Every process. `databases`: variables that name Postgres; `tokens`: the API's own key."""
    home = folder / f"home-{host.name}"
    home.mkdir(exist_ok=True)
    common = {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(home),
        "DATABASE_URL": databases["DATABASE_URL"],
        "ISTHMUS_RPC_EIP155_31337": f"{outside.chains.evm_url},{outside.chains.evm_ws_url}",
        "ISTHMUS_RPC_STELLAR_DEVNET": outside.chains.stellar_url,
        "ISTHMUS_IRIS_URL": outside.iris,
        operator_variable(ChainId(EVM)): relay_account(),
    }
    for chain, name in FOLLOWERS.items():
        yield Spec(name, ("follow", chain), common)
    yield Spec("attester", ("attest",), common)
    yield Spec("keeper", ("transfers",), common)
    keys = {
        f"ISTHMUS_RELAY_SPONSOR_{variable_suffix(ChainId(STELLAR))}": keypair(SPONSOR).secret,
        # Transfers begin at one unit here.
        f"ISTHMUS_RELAY_SPONSOR_MIN_DEPOSIT_{variable_suffix(ChainId(STELLAR))}": str(10**7),
        f"ISTHMUS_RELAY_KEY_{variable_suffix(ChainId(EVM))}": dev_account(RELAY_ACCOUNT).key.hex(),
        f"ISTHMUS_RELAY_KEY_{variable_suffix(ChainId(STELLAR))}": ",".join(
            keypair(each).secret for each in RELAYS
        ),
        # Of a chain whose blocks come fast and are dear.
        f"ISTHMUS_RELAY_BUDGET_{variable_suffix(ChainId(EVM))}": str(10**20),
    }
    yield Spec("relay", ("relay", "run"), common | in_files(folder / "keys", keys))
    posting = {
        "ISTHMUS_WEBHOOK_KEY": keypair(WEBHOOKS).secret,
        "SSL_CERT_FILE": str(outside.certificate),
    }
    yield Spec("webhooks", ("webhooks",), common | in_files(folder / "keys", posting))
    own = {
        **common,
        **databases,
        **make_keys(folder / "keys", api_url),
        **tokens(folder / "keys"),
        "ISTHMUS_STREAMS_PER_ADDRESS": "2000",
        **{f"ISTHMUS_LIMIT_{what}": "off" for what in ("READS", "SIGN_IN", "OWNER")},
    }
    yield api_spec(host, workers, own)
