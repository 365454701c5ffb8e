"""A run with followers started bare: `isthmus follow`, one process a chain.

The chains live a seeded life while both followers read them through faulty nodes and are killed,
alone, together, with Postgres or by way of it. Then the chains go quiet, the followers catch up,
and the database has to hold what a straight run makes of the same chains.
"""

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psycopg

from tests.system.chaos import phases
from tests.system.chaos.chains import CHAINS, EVM, STELLAR, Chains, fresh_chains
from tests.system.chaos.comparing import compare, drain_straight
from tests.system.chaos.contents import Tip
from tests.system.chaos.faults import FaultyNodes
from tests.system.chaos.history import History
from tests.system.chaos.outcome import Outcome
from tests.system.chaos.processes import Follower, Postgres, last_line
from tests.system.chaos.site import Site, database

TIMEOUT = 90.0
"""Seconds for the followers to come to the head once all is quiet."""
_FINALITY_TIMEOUT = 60.0
"""Seconds for what is final to be noted after the last range."""
_AIM_SECONDS = 0.4
_AIM_AGAIN_SECONDS = 1.5
"""How long a kill waits for its phase, at first and with a follower that has just begun."""
_STATEMENT_SECONDS = 0.01
"""Within that, Postgres has carried out a statement that it has already taken on."""
_BOREDOM_SECONDS = 0.2
"""A victim that does nothing for so long is given something to do."""
_OPERATOR_SECONDS = 0.2
"""After that somebody starts a follower that ended by itself."""

_ENDS_AS_IT_MUST = ("WrongChain:", "RetentionGap:", "FollowerConflict:")
"""What a follower may end with by itself: two faults are beyond it, and so is a session that
Postgres has not noticed to be dead."""

Kill = Callable[[Follower, int | None], None]
"""Kills a victim that is stopped, or what it works with; given its session's process."""

_GATES = {
    EVM: (
        "facts.cursors",
        "facts.blocks",
        "facts.evm_logs",
        "facts.orphans",
        "projections.movements",
    ),
    STELLAR: (
        "facts.cursors",
        "facts.blocks",
        "facts.stellar_events",
        "projections.movements",
        "projections.book",
        "projections.orders",
        "projections.stream_events",
    ),
}
"""Tables at whose doors a follower may be met, in the order in which a range is written."""


def bare_run(site: Site, seed: int, *, acts: int = 60) -> Outcome:
    """One run, from fresh chains to the comparison."""
    began = time.monotonic()
    outcome = Outcome(seed, "bare")
    chance = random.Random(seed)
    name = f"chaos_{seed}"
    folder = site.folder / name
    folder.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(database(site.postgres, name))
        straight_url = stack.enter_context(database(site.straight, name))
        chains = stack.enter_context(fresh_chains(folder, random.Random(chance.random())))
        nodes = FaultyNodes(chains, random.Random(chance.random()), stopping=True)
        stack.callback(nodes.close)
        crew = Crew(
            site.postgres,
            {
                chain: Follower(
                    chain,
                    site.nursery,
                    _environment(folder, url, nodes, chance),
                    folder / f"{chain.replace(':', '-')}.log",
                )
                for chain in CHAINS
            },
            phases.Watch(url),
            random.Random(chance.random()),
            outcome,
        )
        stack.callback(crew.close)
        history = History(chains, random.Random(chance.random()))
        try:
            crew.start()
            _play(crew, nodes, history, chance, acts)
            _settle(crew, nodes, history, chance)
            problem = await_head(url, chains, crew.tick)
        finally:
            outcome.faults = nodes.shown()
            outcome.acts, outcome.reorgs = history.counts, history.depths
            outcome.findings += crew.unexpected_ends()
        if problem is not None:
            logs = "; ".join(f"{f.chain}: {last_line(f.log)}" for f in crew.followers.values())
            outcome.differences.append(f"{problem} ({logs})")
        crew.leave()
        drain_straight(chains, straight_url)
        compare(outcome, chains, url, straight_url)
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def _environment(
    folder: object, url: str, nodes: FaultyNodes, chance: random.Random
) -> dict[str, str]:
    pushed = [nodes.evm.ws_url] if chance.random() < 0.5 else []
    return {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(folder),
        "DATABASE_URL": url,
        "ISTHMUS_RPC_EIP155_31337": ",".join([nodes.evm.url, *pushed]),
        "ISTHMUS_RPC_STELLAR_DEVNET": nodes.stellar.url,
    }


def _play(
    crew: "Crew", nodes: FaultyNodes, history: History, chance: random.Random, acts: int
) -> None:
    """The run's script: acts, kills and faults in one order that the seed decides."""
    steps: list[Callable[[], object]] = [*history.set_up(), *[history.act] * acts]
    kills = set(chance.sample(range(len(steps)), chance.randint(4, 8)))
    # A follower that meets too many faults is away most of the time, and no kill finds it at work.
    fault_rate = chance.choice((0.0, 0.04, 0.12))
    if chance.random() < 0.15:
        nodes.spoil_by_chance()
    for number, step in enumerate(steps):
        step()
        if chance.random() < 0.08:
            crew.await_evm(history)
            history.do("reorg", history.reorg)
        if number in kills:
            crew.kill(history)
        if chance.random() < fault_rate:
            nodes.spoil()
        elif chance.random() < 0.02:
            nodes.disturb_heads()
        time.sleep(chance.uniform(0, 0.04))
        crew.tick()


def _settle(crew: "Crew", nodes: FaultyNodes, history: History, chance: random.Random) -> None:
    """Everything that was killed is back, nodes are well, and one more block and ledger comes."""
    nodes.heal()
    crew.await_restarts()
    if nodes.shown()["eip155 no tags"] or chance.random() < 0.6:
        # Whether a node names final blocks is asked once in a process's life. Otherwise this saves
        # the pause that a follower has come to by many failures in a row.
        crew.restart_followers()
    history.close()


def await_head(
    url: str, chains: Chains, tick: Callable[[], None], *, timeout: float = TIMEOUT
) -> str | None:
    """Wait until every cursor is on its chain's end; what is wrong, when it takes too long."""
    tips = chains.tips()
    deadline = time.monotonic() + timeout
    while not _is_there(found := _cursors(url), tips):
        if time.monotonic() > deadline:
            return f"not at the head after {timeout:g} s: at {found} of {tips}"
        tick()
        time.sleep(0.03)
    deadline = time.monotonic() + _FINALITY_TIMEOUT
    while _cursors(url) != {tip.chain: tip for tip in tips} and time.monotonic() < deadline:
        tick()
        time.sleep(0.03)
    return None


def _is_there(found: dict[str, Tip], tips: tuple[Tip, ...]) -> bool:
    return all(
        tip.chain in found
        and (found[tip.chain].height, found[tip.chain].block_hash) == (tip.height, tip.block_hash)
        for tip in tips
    )


def _cursors(url: str) -> dict[str, Tip]:
    """Where the chains stand; nowhere while Postgres recovers from a killed session."""
    try:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT chain, height, block_hash, safe_height, final_height FROM facts.cursors"
            )
            return {row[0]: Tip(*row) for row in rows}
    except psycopg.OperationalError:
        return {}


@dataclass
class Crew:
    """Both followers and Postgres, their killer, and who starts them again."""

    postgres: Postgres
    followers: dict[str, Follower]
    watch: phases.Watch
    chance: random.Random
    outcome: Outcome
    _due: list[tuple[float, Follower]] = field(default_factory=list)
    _hands: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _returning: Future[None] | None = None

    def start(self) -> None:
        """Begin, each follower a little apart."""
        for follower in self.followers.values():
            follower.start()

    def tick(self) -> None:
        """Start what is due to be started, and followers that ended by themselves."""
        now = time.monotonic()
        waiting = {id(follower) for _, follower in self._due}
        for follower in self.followers.values():
            if not follower.runs() and id(follower) not in waiting:
                self._due.append((now + _OPERATOR_SECONDS, follower))
        due = [each for each in self._due if each[0] <= now]
        self._due = [each for each in self._due if each[0] > now]
        for _, follower in due:
            follower.start()

    def await_evm(self, history: History) -> None:
        """Wait a little for the EVM chain's follower: a reorg of what it has not read is none."""
        victim = self.followers[EVM]
        victim.start()
        head = history.evm_head()
        self._await(lambda: self.watch.block(EVM) == head, victim, None, _AIM_SECONDS)

    def await_restarts(self) -> None:
        """Everything runs again."""
        self._await_postgres()
        self._due.clear()
        self.start()

    def restart_followers(self) -> None:
        """End both and start them anew."""
        for follower in self.followers.values():
            if follower.kill():
                self._note("follower")
            follower.start()

    def leave(self) -> None:
        """End the followers: the run is over."""
        for follower in self.followers.values():
            follower.kill()

    def close(self) -> None:
        """End whatever is left."""
        self.leave()
        self.watch.close()
        self._await_postgres()
        self._hands.shutdown()

    def unexpected_ends(self) -> list[str]:
        """How followers ended by themselves that should have gone on."""
        return [
            ended
            for follower in self.followers.values()
            for ended in follower.ended
            if not any(words in ended for words in _ENDS_AS_IT_MUST)
        ]

    def kill(self, history: History) -> None:
        """Kill something, at some moment of its work.

        How long that takes decides how much chance is used up meanwhile. So it is chance of its
        own, and what the seed has in store afterwards stays the same.
        """
        before, self.chance = self.chance, random.Random(self.chance.random())
        with history.aside(random.Random(self.chance.random())):
            self._kill(history)
        self.chance = before

    def _kill(self, history: History) -> None:
        self._await_postgres()
        kinds: dict[Kill, int] = {
            self._kill_follower: 9,
            self._kill_both: 2,
            self._kill_postmaster: 2,
            self._kill_postgres: 2,
            self._kill_session: 2,
            self._kill_everything: 3,
        }
        [kind] = self.chance.choices(list(kinds), weights=list(kinds.values()))
        victim = self.followers[self.chance.choice(CHAINS)]
        victim.start()
        self._busy(victim, history)
        with self._aimed(victim, history, _AIM_SECONDS) as seen:
            idle = seen.phase in (phases.STARTING, phases.ASKING)
            again = idle and self.chance.random() < 0.7
            self._note_phase(victim, seen)
            (self._kill_follower if again else kind)(victim, seen.session)
        if not again:
            return
        # It paused, or had not noticed yet. The next one begins with all that it missed.
        victim.start()
        with self._aimed(victim, history, _AIM_AGAIN_SECONDS) as seen:
            self._note_phase(victim, seen)
            kind(victim, seen.session)

    def _busy(self, victim: Follower, history: History) -> None:
        """Give the victim something to do."""
        if victim.chain == STELLAR:
            history.act_on_stellar()
        elif self.chance.random() < 0.4:
            history.do("reorg", history.reorg)
        else:
            history.act_on_evm()

    @contextmanager
    def _aimed(self, victim: Follower, history: History, seconds: float) -> Iterator[phases.Seen]:
        """The victim stopped where the kill is to come, or anywhere when it does not get there.

        A stopped process does nothing more: what Postgres is seen to hold for it is where it is.
        """
        how = self.chance.random()
        if how < 0.25:
            time.sleep(self.chance.uniform(0, seconds / 4))
            yield self._stopped(victim)
        elif how < 0.4:
            yield self._stopped_by_steps(victim, history, seconds)
        else:
            table = self.chance.choice(_GATES[victim.chain])
            if table == "facts.orphans":
                self.await_evm(history)
                history.do("reorg", history.reorg)
            with self.watch.gate(table) as gate:
                self._await(
                    lambda: gate.table in self.watch.look(victim.chain).awaited,
                    victim,
                    history,
                    seconds,
                )
                seen = self._stopped(victim)
                if self.chance.random() < 0.5:
                    # The statement that waits is carried out, and the next one never comes.
                    gate.open()
                    time.sleep(_STATEMENT_SECONDS)
                    seen = self._stopped(victim)
                yield seen

    def _stopped_by_steps(self, victim: Follower, history: History, seconds: float) -> phases.Seen:
        aim = self.chance.choice(phases.IN_TRANSACTION)
        deadline = time.monotonic() + seconds

        def is_at_work() -> bool:
            return self.watch.look(victim.chain).phase not in (phases.STARTING, phases.ASKING)

        while self._await(is_at_work, victim, history, deadline - time.monotonic()):
            seen = self._stopped(victim)
            if seen.phase == aim:
                return seen
            victim.signal(signal.SIGCONT)
            time.sleep(self.chance.uniform(0, 0.002))
        return self._stopped(victim)

    def _await(
        self,
        condition: Callable[[], bool],
        victim: Follower,
        history: History | None,
        seconds: float,
    ) -> bool:
        """Wait for something of the victim, which a history gives more to do now and then."""
        deadline = time.monotonic() + seconds
        bored = time.monotonic() + _BOREDOM_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                return False
            if history is not None and time.monotonic() > bored:
                self._busy(victim, history)
                bored = time.monotonic() + _BOREDOM_SECONDS
            time.sleep(0.002)
        return True

    def _stopped(self, victim: Follower) -> phases.Seen:
        victim.signal(signal.SIGSTOP)
        return self.watch.look(victim.chain)

    # Kills: the victim is stopped when they are called.

    def _kill_follower(self, victim: Follower, _: int | None) -> None:
        if victim.kill():
            self._note("follower")
        self._later(victim)

    def _kill_both(self, *_: object) -> None:
        for follower in self.followers.values():
            if follower.kill():
                self._note("follower")
            self._later(follower)

    def _kill_postmaster(self, victim: Follower, _: int | None) -> None:
        self.postgres.kill_postmaster()
        self._note("postgres: postmaster")
        victim.signal(signal.SIGCONT)
        self._bring_back()

    def _kill_postgres(self, victim: Follower, _: int | None) -> None:
        self.postgres.kill_all()
        self._note("postgres: every process")
        victim.signal(signal.SIGCONT)
        self._bring_back()

    def _kill_session(self, victim: Follower, session: int | None) -> None:
        if session is not None and self.postgres.kill_backend(session):
            self._note("postgres: a session")
        victim.signal(signal.SIGCONT)

    def _kill_everything(self, *_: object) -> None:
        self.postgres.kill_all()
        for follower in self.followers.values():
            follower.kill()
            self._later(follower)
        self._note("followers and postgres")
        self._bring_back()

    def _note_phase(self, victim: Follower, seen: phases.Seen) -> None:
        self.outcome.phases[f"{victim.chain.partition(':')[0]} {seen.phase}"] += 1

    def _note(self, what: str) -> None:
        self.outcome.kills[what] += 1

    def _later(self, follower: Follower) -> None:
        self._due.append((time.monotonic() + self.chance.uniform(0, 0.4), follower))

    def _bring_back(self) -> None:
        """Start Postgres again while life goes on."""
        pause = self.chance.uniform(0, 0.3)

        def start() -> None:
            time.sleep(pause)
            self.postgres.start()

        self._returning = self._hands.submit(start)

    def _await_postgres(self) -> None:
        """Wait until it is back. Raises what its launcher raised."""
        returning, self._returning = self._returning, None
        if returning is not None:
            returning.result()
