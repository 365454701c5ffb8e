"""One run: some dozens of transfers at once, everything under them killed, and then the verdict."""

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from eth_account import Account
from eth_account.signers.local import LocalAccount

from devnet import circle
from devnet.customers import Customer, Purse, open_accounts
from devnet.evm import STELLAR_DOMAIN, dev_account
from devnet.evm_node import DevnetError, Reverted, RpcFailed
from devnet.keys import (
    RELAY,
    RELAY_ACCOUNT,
    SPONSOR,
    WEBHOOKS,
    in_files,
    make_keys,
    public_webhook_key,
    relay_account,
)
from devnet.local_http import local_client
from devnet.stellar.accounts import PASSPHRASE, SEP10, address, keypair, secret
from devnet.stellar.client import Failed, Refused, Rejected
from devnet.supervisor import free_port
from devnet.transfers import Holding, Played
from devnet.webhook_receiver import make_certificate
from indexer.config.settings import operator_variable, variable_suffix
from isthmus_client import ClientError, Login, SignIn, Transfer
from tests.system.chaos.chains import CHAINS, EVM, HOST, STELLAR, Chains, fresh_chains
from tests.system.chaos.faults import FaultyNodes
from tests.system.chaos.processes import KillableServer, Nursery
from tests.system.chaos.site import Site, database
from tests.system.chaos.transfers.checker import judge, supply
from tests.system.chaos.transfers.circle import SlowAttestations
from tests.system.chaos.transfers.crew import Crew, Process, Spec
from tests.system.chaos.transfers.hooks import Hooks, hooks, registered
from tests.system.chaos.transfers.kinds import KINDS, PAYEE, ChaosPlays, Kind
from tests.system.chaos.transfers.outcome import Run
from tests.system.chaos.transfers.wallet import Mischief, Wallet
from tests.system.chaos.transfers.world import Ledgers, SharedEvm, Weather, shared
from warehouse_schema.identifiers import ChainId

TRANSFERS = 40
"""Of a run, all under way at once."""
_RELAYS = (RELAY, "relay 2", "relay 3")
"""Its accounts on Stellar: each has one transaction under way."""
_STARTERS = 8
_AT_ONCE = 16
"""Accounts that one transaction opens: it has twenty signatures at most."""
_CHAOS_SECONDS = 90.0
_CALM_SHARE = 0.9
"""Once so many transfers are over, or after so long, nothing more is killed."""
_TIMEOUT = 240.0
"""From then on everything has to end."""
_LOOK_SECONDS = 0.03
_LOOKERS = 16
_SHORT_SHARE = 0.3
"""Of attestations that end before the relay may have come to them."""
_REFUSALS = (ClientError, DevnetError, Reverted, RpcFailed, Refused, Rejected, Failed)
_READY_SECONDS = 60.0


@dataclass(frozen=True)
class Cast:
    """A transfer to be played: who, what kind, how much."""

    what: str
    kind: Kind
    name: str
    amount: int


def transfers_run(site: Site, seed: int, *, transfers: int = TRANSFERS) -> Run:
    """One run, from fresh chains to the verdict."""
    began = time.monotonic()
    run = Run(seed)
    with ExitStack() as doors:
        stage = doors.enter_context(
            staged(site.folder, site.postgres, site.nursery, seed, transfers, run)
        )
        stage.play()
        stage.judge()
    run.seconds = round(time.monotonic() - began, 1)
    return run


@contextmanager
def staged(
    place: Path, postgres: KillableServer, nursery: Nursery, seed: int, transfers: int, run: Run
) -> "Iterator[Stage]":
    """All that a run of so many transfers needs, gone afterwards."""
    chance = random.Random(seed)
    name = f"chaos_transfers_{seed}"
    folder = place / name
    folder.mkdir()
    with ExitStack() as doors:
        url = doors.enter_context(database(postgres, name))
        chains = doors.enter_context(fresh_chains(folder, chance))
        ledgers = doors.enter_context(closing(Ledgers(chains.stellar_url)))
        ledgers.close_ledger(close_time_ms=int(time.time() - 60) * 1000)
        evm = shared(chains.evm)
        casts = _casts(seed, transfers, random.Random(chance.random()))
        for each in (*_RELAYS, SPONSOR):
            ledgers.fund(keypair(each).public_key)
        _open(casts, ledgers, evm)
        nodes = FaultyNodes(chains, random.Random(chance.random()), stopping=False)
        doors.callback(nodes.close)
        ends = _ends(chains, random.Random(chance.random()))
        well = doors.enter_context(circle.reading(chains.evm_url, chains.stellar_url, ends))
        attested = SlowAttestations(well, random.Random(chance.random()), rate=0.15)
        iris = doors.enter_context(circle.serving(0, attested))
        certificate = make_certificate(folder / "keys")
        told = doors.enter_context(
            hooks(certificate, public_webhook_key(), random.Random(chance.random()), rate=0.15)
        )
        api_url = f"http://{HOST}:{free_port()}"
        crew = Crew(
            postgres,
            url,
            [
                Process(each, nursery, folder / f"{each.name.replace(' ', '-')}.log")
                for each in _specs(folder, url, nodes, iris, api_url, certificate)
            ],
            random.Random(chance.random()),
            run,
        )
        doors.callback(crew.close)
        weather = Weather(
            chains,
            evm,
            ledgers,
            nodes,
            random.Random(chance.random()),
            {_payer(each.name).address.lower() for each in casts},
            relay_account(),
        )
        yield Stage(
            url, chains, evm, ledgers, nodes, attested, told, crew, weather, casts, api_url,
            Mischief(random.Random(chance.random()), rate=0.12), chance, run,
        )  # fmt: skip


def _ends(chains: Chains, chance: random.Random) -> circle.Expires:
    """Some attestations for Stellar are over within some ledgers, and have to be renewed."""

    def expires(domain: int) -> int:
        if domain != STELLAR_DOMAIN or chance.random() > _SHORT_SHARE:
            return 0
        return chains.stellar.latest.sequence + chance.randint(1, 6)

    return expires


def _casts(seed: int, transfers: int, chance: random.Random) -> list[Cast]:
    """Every kind as often as every other, give or take one."""
    names = [*KINDS]
    kinds = [names[number % len(names)] for number in range(transfers)]
    chance.shuffle(kinds)
    return [
        Cast(kind, KINDS[kind], f"chaos {seed} {number}", chance.randint(10**6, 20 * 10**6))
        for number, kind in enumerate(kinds)
    ]


def _payee(each: Cast) -> str:
    return f"{each.name} to"


def _payer(name: str) -> LocalAccount:
    account: LocalAccount = Account.from_key(secret(name))
    return account


def _open(casts: Sequence[Cast], ledgers: Ledgers, evm: SharedEvm) -> None:
    people: dict[str, Purse] = {}
    for each in casts:
        people[each.name] = each.kind.purse(each.amount)
        if "payment" in each.what:
            people[_payee(each)] = PAYEE
    names = [*people]
    for start in range(0, len(names), _AT_ONCE):
        some = {name: people[name] for name in names[start : start + _AT_ONCE]}
        open_accounts(some, ledgers, evm)


def _specs(
    folder: Path, url: str, nodes: FaultyNodes, iris: str, api_url: str, certificate: Path
) -> Iterator[Spec]:
    common = {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(folder),
        "DATABASE_URL": url,
        "ISTHMUS_RPC_EIP155_31337": f"{nodes.evm.url},{nodes.evm.ws_url}",
        "ISTHMUS_RPC_STELLAR_DEVNET": nodes.stellar.url,
        "ISTHMUS_IRIS_URL": iris,
        operator_variable(ChainId(EVM)): relay_account(),
        **{f"ISTHMUS_LIMIT_{what}": "off" for what in ("READS", "SIGN_IN", "OWNER")},
    }
    for chain in CHAINS:
        name = f"follower {chain.partition(':')[0]}"
        yield Spec(name, ("follow", chain), common)
    yield Spec("attester", ("attest",), common)
    yield Spec("keeper", ("transfers",), common)
    keys = {
        f"ISTHMUS_RELAY_SPONSOR_{variable_suffix(ChainId(STELLAR))}": keypair(SPONSOR).secret,
        # Transfers begin at one unit here.
        f"ISTHMUS_RELAY_SPONSOR_MIN_DEPOSIT_{variable_suffix(ChainId(STELLAR))}": str(10**7),
        f"ISTHMUS_RELAY_KEY_{variable_suffix(ChainId(EVM))}": dev_account(RELAY_ACCOUNT).key.hex(),
        f"ISTHMUS_RELAY_KEY_{variable_suffix(ChainId(STELLAR))}": ",".join(
            secret_of(each) for each in _RELAYS
        ),
        # Of a chain whose blocks come fast and are dear.
        f"ISTHMUS_RELAY_BUDGET_{variable_suffix(ChainId(EVM))}": str(10**20),
    }
    yield Spec("relay", ("relay", "run"), common | in_files(folder / "keys", keys))
    posting = {"ISTHMUS_WEBHOOK_KEY": secret_of(WEBHOOKS), "SSL_CERT_FILE": str(certificate)}
    yield Spec("sender", ("webhooks",), common | in_files(folder / "keys", posting))
    bind = api_url.removeprefix("http://")
    own = make_keys(folder / "keys", api_url)
    yield Spec("api", ("api", "--bind", bind, "--workers", "2"), {**common, **own})


def secret_of(name: str) -> str:
    """A devnet identity's seed, `S…`."""
    return keypair(name).secret


@dataclass
class Stage:
    """Everything that a run needs, ready to begin."""

    warehouse: str
    """libpq URL."""
    chains: Chains
    evm: SharedEvm
    ledgers: Ledgers
    nodes: FaultyNodes
    attested: SlowAttestations
    hooks: Hooks
    crew: Crew
    weather: Weather
    casts: Sequence[Cast]
    api_url: str
    mischief: Mischief
    chance: random.Random
    run: Run

    def play(self, *, in_peace: bool = False) -> None:
        """All transfers to their ends, or as far as they get."""
        self.before = supply(self.chains)
        self.played: dict[str, tuple[Cast, Played]] = {}
        self.shown: dict[str, Transfer] = {}
        self._seen: dict[str, Transfer] = {}
        self.wallets: dict[str, Wallet] = {}
        self._registered = {*registered([each.name for each in self.casts])}
        self._helped: set[str] = set()
        over, calm = threading.Event(), threading.Event()
        if in_peace:
            self._calm(calm)
            self.mischief.rate = 0.0
        self.crew.start()
        self._await_api()
        with ExitStack() as doors, ThreadPoolExecutor(3 + _STARTERS) as pool:
            people = {
                name: doors.enter_context(closing(self.customer(name)))
                for each in self.casts
                for name in (each.name, _payee(each))
            }
            beside = [
                pool.submit(self.weather.go_on, over),
                pool.submit(self.weather.close_ledgers, over),
                pool.submit(self.crew.kill_for, calm, over),
            ]
            starting = [pool.submit(self._start, each, people) for each in self.casts]
            try:
                self._follow(starting, calm)
                self._calm(calm)
                self.hooks.settle(self.wallets, self.ends())
            finally:
                calm.set()
                over.set()
            for each in beside:
                each.result()

    def customer(self, name: str) -> Customer:
        server = SignIn(PASSPHRASE, signing_key=address(SEP10))
        login = Login.with_key(keypair(name), server)
        wallet = Wallet(self.api_url, self.mischief, login=login, transport=httpx.HTTPTransport())
        self.wallets[name] = wallet
        return Customer(name, keypair(name), _payer(name), wallet)

    def _await_api(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        with local_client(self.api_url, timeout=5.0) as http:
            while True:
                try:
                    if http.get("/healthz").status_code == 200:
                        return
                except httpx.TransportError as error:
                    if time.monotonic() > deadline:
                        raise TimeoutError("the API does not answer") from error
                time.sleep(0.1)

    def _start(self, each: Cast, people: Mapping[str, Customer]) -> None:
        plays = ChaosPlays(self.evm, self.ledgers, lambda _: None)
        try:
            if each.name in self._registered:
                self.hooks.register(each.name, self.wallets[each.name])
            played = each.kind.play(plays, people[each.name], people[_payee(each)], each.amount)
        except _REFUSALS as error:
            self.run.stuck.append(f"{each.what} of {each.name} was not begun: {_sentence(error)}")
            return
        # From here on he looks again and again, and may be shown something at any time.
        self.wallets[each.name].waits = False
        self.played[played.transfer] = each, played

    def _follow(self, starting: Sequence[Future[None]], calm: threading.Event) -> None:
        """Let wallets react until all is over; make it calm in time for that.

        What was over may have been taken back, so it has to be over again once the service has
        ingested the last block that was replaced.
        """
        began, calmed = time.monotonic(), 0.0
        is_settled = False
        looks: dict[str, Future[None]] = {}
        # A wallet that waits for another one's message keeps no third one waiting.
        with ThreadPoolExecutor(_LOOKERS) as pool:
            while True:
                begun = all(each.done() for each in starting)
                self._look_at_all(pool, looks)
                is_over = begun and len(self.shown) == len(self.played)
                if is_over and is_settled:
                    break
                if is_over and self._has_ingested_last_reorg():
                    is_settled = True
                    self.shown.clear()
                now = time.monotonic()
                enough = begun and len(self.shown) >= _CALM_SHARE * len(self.played)
                if not calmed and (enough or now - began > _CHAOS_SECONDS):
                    calmed = now
                    self._calm(calm)
                if calmed and now - calmed > _TIMEOUT:
                    break
                time.sleep(_LOOK_SECONDS)
        for each in (*starting, *looks.values()):
            each.result()

    def _has_ingested_last_reorg(self) -> bool:
        """Replaced blocks were no higher than those that took their place."""
        settled_at = self.weather.settled_at
        if settled_at is None:
            return False
        try:
            chains = self.wallets[self.casts[0].name].readiness().chains
        except _REFUSALS:
            return False
        return any(
            each.chain == EVM and each.height is not None and each.height > settled_at
            for each in chains
        )

    def _look_at_all(self, pool: ThreadPoolExecutor, looks: dict[str, Future[None]]) -> None:
        """At each transfer that is not over, unless somebody is still looking at it."""
        for transfer, (_, played) in [*self.played.items()]:
            last = looks.get(transfer)
            if transfer in self.shown or (last is not None and not last.done()):
                continue
            if last is not None:
                last.result()
            looks[transfer] = pool.submit(self._look, transfer, played)
            time.sleep(_LOOK_SECONDS)

    def _calm(self, calm: threading.Event) -> None:
        calm.set()
        self.weather.is_calm.set()
        self.nodes.heal()
        self.attested.heal()
        self.hooks.heal()

    def _look(self, transfer: str, played: Played) -> None:
        try:
            self._seen[transfer] = shown = played.who.api.transfer(transfer)
            played.react(shown)
            self._meddle(shown)
        except _REFUSALS as error:
            finding = f"{played.what} of {played.who.name}: {_sentence(error)}"
            self.run.findings += [finding] if finding not in self.run.findings else []
            return
        if shown.stage == played.stage:
            self.shown[transfer] = shown

    def _meddle(self, shown: Transfer) -> None:
        """Now and then somebody delivers before the relay does, as anybody may."""
        given = shown.self_finish
        if given is None or shown.id in self._helped:
            return
        self._helped.add(shown.id)
        if given.chain != EVM or self.chance.random() > 0.3:
            return
        message, attestation = (
            bytes.fromhex(each.removeprefix("0x")) for each in (given.message, given.attestation)
        )
        try:
            self.chains.evm.receive_message(dev_account(5), message, attestation)
            self.mischief.note("delivered by a stranger")
        except Reverted:
            self.mischief.note("delivered by a stranger too late")

    # What came of it

    def judge(self) -> None:
        """By the chains, and then by what the API says."""
        run = self.run
        run.transfers = len(self.casts)
        run.reorgs = self.weather.reorgs
        run.faults = self.nodes.shown() + self.attested.shown + self.hooks.shown
        run.mischief = self.mischief.done
        run.findings += [*self.mischief.findings, *self.crew.unexpected_ends()]
        for transfer, (each, played) in self.played.items():
            if transfer in self.shown:
                run.completed[each.what] += 1
                run.findings += _contradictions(played, self.shown[transfer])
            else:
                run.stuck.append(self._stuck(transfer, played))
        run.findings += self.hooks.problems(self.ends())
        verdict = judge(self.chains, self.expected(), self.before)
        run.lost += verdict.lost
        run.double += verdict.double
        run.findings += verdict.sums

    def expected(self) -> list[tuple[str, Holding]]:
        """What must be held in the end, by transfer."""
        return [
            (f"{played.what} {transfer}", holding)
            for transfer, (_, played) in self.played.items()
            for holding in played.holdings
        ]

    def ends(self) -> dict[str, dict[str, str]]:
        """Where the transfers of each owner must end."""
        return {
            each.name: {transfer: played.stage} for transfer, (each, played) in self.played.items()
        }

    def _stuck(self, transfer: str, played: Played) -> str:
        shown = self._seen.get(transfer)
        at = "never shown"
        if shown is not None:
            at = f"{shown.stage}, {shown.stage_reason}: {shown.stage_detail}"
        return f"{played.what} {transfer} of {played.who.name}: {at}"


def _contradictions(played: Played, shown: Transfer) -> list[str]:
    """Amounts that the API says otherwise than they were reckoned."""
    wanted = {"amount_in": played.amount_in, "amount_delivered": played.delivered}
    return [
        f"{played.what} {shown.id}: {name} is {getattr(shown, name)}, and must be {value}"
        for name, value in wanted.items()
        if getattr(shown, name) != value
    ]


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
