"""A run with followers started bare: `python -m indexer follow`, one process a chain.

The chains live a seeded life while both followers read them through faulty nodes and are killed,
alone, together, with Postgres or by way of it. Then the chains go quiet, the followers catch up,
and the database has to hold what a straight run makes of the same chains.
"""

import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg

from tests.chaos import phases
from tests.chaos.chains import CHAINS, EVM, STELLAR, Chains, fresh_chains
from tests.chaos.comparing import compare, drain_straight
from tests.chaos.contents import Tip
from tests.chaos.faults import FaultyNodes
from tests.chaos.history import History
from tests.chaos.outcome import Outcome
from tests.chaos.processes import Follower, Postgres, last_line
from tests.chaos.site import Site, database

PATIENCE = 90.0
"""Seconds for the followers to come to the head once all is quiet."""
_FINALITY_PATIENCE = 3.0
"""Seconds for what is final to be noted after the last range."""
_AIM_SECONDS = 0.4
"""How long a kill waits for its phase."""
_BOREDOM_SECONDS = 0.2
"""A victim that does nothing for so long is given something to do."""
_OPERATOR_SECONDS = 0.2
"""After that somebody starts a follower that ended by itself."""

_ENDS_AS_IT_MUST = ("WrongChain:", "RetentionGap:", "FollowerConflict:")
"""What a follower may end with by itself: two faults are beyond it, and so is a session that
Postgres has not noticed to be dead."""

Kill = Callable[[Follower, int | None], None]
"""Kills a victim that is stopped, or what it works with; given its session's process."""

_AIMS = {
    EVM: (
        phases.CURSOR,
        phases.FACTS,
        phases.TAKING_BACK,
        phases.MOVEMENTS,
        phases.COMMITTING,
    ),
    STELLAR: (
        phases.CURSOR,
        phases.FACTS,
        phases.MOVEMENTS,
        phases.BOOK,
        phases.MESSAGES,
        phases.COMMITTING,
    ),
}


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
    if chance.random() < 0.25:
        nodes.spoil_by_chance()
    for number, step in enumerate(steps):
        step()
        if number in kills:
            crew.kill(history)
        if chance.random() < 0.12:
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
    url: str, chains: Chains, tick: Callable[[], None], *, patience: float = PATIENCE
) -> str | None:
    """Wait until every cursor is on its chain's end; what is wrong, when it takes too long."""
    tips = chains.tips()
    deadline = time.monotonic() + patience
    while not _is_there(found := _cursors(url), tips):
        if time.monotonic() > deadline:
            return f"not at the head after {patience:g} s: at {found} of {tips}"
        tick()
        time.sleep(0.03)
    deadline = time.monotonic() + _FINALITY_PATIENCE
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
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT chain, height, block_hash, safe_height, final_height FROM facts.cursors"
        )
        return {row[0]: Tip(*row) for row in rows}


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
        """Kill something, at some moment of its work."""
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
        phase, session = self._aim(victim, history)
        if phase in (phases.STARTING, phases.ASKING) and self.chance.random() < 0.7:
            # It pauses, or has not noticed yet. The next one begins with all that it missed.
            self._note_phase(victim, phase)
            self._kill_follower(victim, session)
            victim.start()
            phase, session = self._aim(victim, history)
        self._note_phase(victim, phase)
        kind(victim, session)

    def _busy(self, victim: Follower, history: History) -> None:
        """Give the victim something to do."""
        if victim.chain == STELLAR:
            history.act_on_stellar()
        elif self.chance.random() < 0.4:
            history.do("reorg", history.reorg)
        else:
            history.act_on_evm()

    def _aim(self, victim: Follower, history: History) -> tuple[str, int | None]:
        """Stop the victim where the kill is to come, or anywhere; the phase and its session.

        A stopped process does nothing more: what Postgres is seen to hold for it is where it is.
        """
        if self.chance.random() < 0.3:
            time.sleep(self.chance.uniform(0, 0.1))
            return self._stopped(victim)
        aim = self.chance.choice(_AIMS[victim.chain])
        deadline = time.monotonic() + _AIM_SECONDS
        bored = time.monotonic() + _BOREDOM_SECONDS
        while time.monotonic() < deadline:
            phase, _ = self.watch.look(victim.chain)
            if phase in (phases.STARTING, phases.ASKING):
                # Left alone until it writes: stopped all the time it would never get there.
                if time.monotonic() > bored:
                    self._busy(victim, history)
                    bored = time.monotonic() + _BOREDOM_SECONDS
                time.sleep(0.001)
                continue
            phase, session = self._stopped(victim)
            if phase == aim:
                return phase, session
            victim.signal(signal.SIGCONT)
            time.sleep(self.chance.uniform(0, 0.002))
        return self._stopped(victim)

    def _stopped(self, victim: Follower) -> tuple[str, int | None]:
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

    def _note_phase(self, victim: Follower, phase: str) -> None:
        self.outcome.phases[f"{victim.chain.partition(':')[0]} {phase}"] += 1

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
