"""Rate limits: counted per process or shared in Postgres."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask.testing import FlaskClient
from limits import parse
from sqlalchemy import create_engine, func, select, text, update

from api.app import create_app
from api.deps import Deps
from api.errors import TooManyRequests
from api.rate_limits import OWNER, READS, SIGN_IN, RateBudgets, RateLimiter
from api.rate_storage import MemoryRateStorage, PostgresRateStorage
from api.settings import load_api_settings
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories.app import NOW
from warehouse_schema.access import rate_counts
from warehouse_schema.identifiers import UnixSeconds


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def postgres_counts(api_engine) -> PostgresRateStorage:
    return PostgresRateStorage(api_engine)


def rates(*shared: str, **budgets: str) -> RateBudgets:
    return RateBudgets({name: parse(each) for name, each in budgets.items()}, frozenset(shared))


def client_of(engine, limiter: RateLimiter) -> FlaskClient:
    deps = Deps(
        engine, load_network("testnet"), lambda: UnixSeconds(NOW), limiter=limiter
    )  # fmt: skip
    return create_app(deps).test_client()


@pytest.fixture
def nowhere():
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    yield engine
    engine.dispose()


def statuses(client: FlaskClient, path: str, address: str, times: int) -> list[int]:
    where = {"REMOTE_ADDR": address}
    return [client.get(path, environ_overrides=where).status_code for _ in range(times)]


# The storages


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_storage_counts_each_key_in_its_window(kind, request):
    storage = (
        MemoryRateStorage() if kind == "memory" else request.getfixturevalue("postgres_counts")
    )
    before = time.time()
    hits = [storage.hit("a", 60) for _ in range(3)]
    assert [hit.hits for hit in hits] == [1, 2, 3]
    # The database's clock is this machine's; a statement takes less than these seconds.
    assert all(before + 50 < hit.ends < time.time() + 61 for hit in hits)
    assert storage.hit("b", 60).hits == 1


def test_memory_window_ends(clock):
    memory = MemoryRateStorage(clock)
    ends = clock.now + 60
    assert [memory.hit("a", 60) for _ in range(3)] == [(1, ends), (2, ends), (3, ends)]
    clock.now += 59
    assert memory.hit("a", 60) == (4, ends)
    clock.now += 1
    assert memory.hit("a", 60) == (1, ends + 60)


def test_full_memory_drops_the_oldest_window(clock):
    memory = MemoryRateStorage(clock, max_keys=100)
    for number in range(1000):
        memory.hit(str(number), 60)
    assert len(memory) == 100
    assert memory.hit("999", 60).hits == 2
    assert memory.hit("899", 60).hits == 1


def test_memory_drops_ended_windows(clock):
    memory = MemoryRateStorage(clock)
    for number in range(100):
        memory.hit(str(number), 60)
    clock.now += 60
    for number in range(60):
        memory.hit(f"later {number}", 60)
    assert len(memory) == 60


def age(engine) -> None:
    """Let every window be over."""
    with engine.begin() as connection:
        connection.execute(update(rate_counts).values(ends_at=func.now()))


def test_postgres_window_ends(engine, postgres_counts):
    assert [postgres_counts.hit("a", 60).hits for _ in range(3)] == [1, 2, 3]
    age(engine)
    assert postgres_counts.hit("a", 60).hits == 1


def test_postgres_deletes_ended_windows(engine, api_engine, clock):
    counts = PostgresRateStorage(api_engine, clock)
    for name in "abc":
        counts.hit(name, 60)
    age(engine)
    clock.now += 60
    counts.hit("d", 60)
    with engine.connect() as connection:
        assert connection.scalars(select(rate_counts.c.key)).all() == ["d"]


def test_rate_counts_table_is_unlogged(engine):
    with engine.connect() as connection:
        kind = text("SELECT relpersistence FROM pg_class WHERE relname = 'rate_counts'")
        assert connection.scalar(kind) == "u"


def test_shared_counts_are_exact_across_processes(api_engine):
    limiters = [
        RateLimiter(rates(SIGN_IN, sign_in="20/minute"), PostgresRateStorage(api_engine))
        for _ in "ab"
    ]

    def one(number: int) -> bool:
        try:
            limiters[number % 2].count(SIGN_IN, "192.0.2.1")
        except TooManyRequests:
            return False
        return True

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(one, range(60))) == 20


# The limiter


def test_refused_client_costs_no_statement(api_engine, clock):
    storage = Counting(clock)
    limiter = RateLimiter(rates(OWNER, owner="3/minute"), storage, clock=clock)
    for _ in range(3):
        limiter.count(OWNER, "G")
    for _ in range(50):
        with pytest.raises(TooManyRequests):
            limiter.count(OWNER, "G")
    assert storage.requests == 4
    clock.now += 61
    limiter.count(OWNER, "G")


class Counting(MemoryRateStorage):
    """Memory that knows how often it was asked, and ends with the test's clock."""

    requests = 0

    def __init__(self, clock) -> None:
        super().__init__(clock)

    def hit(self, key, seconds):
        self.requests += 1
        return super().hit(key, seconds)


def test_refusals_are_reported_by_budget(clock):
    told: list[str] = []
    limiter = RateLimiter(rates(reads="1/minute"), clock=clock, on_refusal=told.append)
    limiter.count(READS, "a")
    with pytest.raises(TooManyRequests):
        limiter.count(READS, "a")
    assert told == [READS]


def test_lost_database_falls_back_to_process_counts(nowhere, clock, caplog):
    limiter = RateLimiter(
        rates(SIGN_IN, sign_in="3/minute"), PostgresRateStorage(nowhere), clock=clock
    )
    for _ in range(3):
        limiter.count(SIGN_IN, "192.0.2.1")
    with pytest.raises(TooManyRequests):
        limiter.count(SIGN_IN, "192.0.2.1")
    # Once for all: it is not asked again at every request.
    assert len([r for r in caplog.records if r.name == "api.rate_limits"]) == 1


# Through HTTP


def test_exceeded_budget_returns_429_with_retry_after(reader, book, clock):
    limiter = RateLimiter(rates(reads="3/minute"), clock=clock)
    client = client_of(reader, limiter)
    here = {"REMOTE_ADDR": "192.0.2.1"}
    for left in (2, 1, 0):
        answer = client.get("/api/v1/orderbook", environ_overrides=here)
        assert (answer.status_code, answer.headers["RateLimit"]) == (200, f'"reads";r={left};t=60')
        assert answer.headers["RateLimit-Policy"] == '"reads";q=3;w=60'
    clock.now += 20
    refused = client.get("/api/v1/orderbook", environ_overrides={"REMOTE_ADDR": "192.0.2.1"})
    assert (refused.status_code, refused.json["code"]) == (429, "TOO_MANY")
    assert refused.headers["Retry-After"] == "40"
    assert refused.headers["RateLimit"] == '"reads";r=0;t=40'
    assert refused.headers["RateLimit-Policy"] == '"reads";q=3;w=60'
    assert statuses(client, "/api/v1/orderbook", "192.0.2.2", 1) == [200]
    clock.now += 40
    assert statuses(client, "/api/v1/orderbook", "192.0.2.1", 1) == [200]


def test_ipv6_network_shares_one_budget(cut_off, nowhere):
    client = client_of(nowhere, RateLimiter(rates(reads="2/minute")))
    assert statuses(client, "/nothing", "2001:db8::1", 1) == [404]
    assert statuses(client, "/nothing", "2001:db8::ffff:1", 2) == [404, 429]
    assert statuses(client, "/nothing", "2001:db8:0:1::1", 1) == [404]


def test_reads_share_a_budget_healthz_is_free(nowhere):
    client = client_of(nowhere, RateLimiter(rates(reads="3/minute")))
    paths = ("/nothing", "/", "/readyz", "/v1/routes", "/api/v1/stream", "/api/v1/orderbook?x=%00")
    assert [client.get(path).status_code for path in paths] == [404, 200, 503, 429, 429, 429]
    assert client.get("/healthz").status_code == 200


def test_sign_in_has_its_own_budget(nowhere):
    client = client_of(nowhere, RateLimiter(rates(reads="1/minute", sign_in="2/minute")))
    codes = [client.get("/auth").status_code for _ in range(3)]
    assert codes[2] == 429
    assert 429 not in codes[:2]
    assert client.get("/nothing").status_code == 404
    # A browser's question is no sign-in.
    assert client.options("/auth").status_code == 429


def test_forwarded_for_header_is_ignored_by_default(nowhere):
    client = client_of(nowhere, RateLimiter(rates(reads="1/minute")))
    for number, status in enumerate((404, 429)):
        headers = {"X-Forwarded-For": f"192.0.2.{number}", "Forwarded": f"for=192.0.2.{number}"}
        assert client.get("/nothing", headers=headers).status_code == status


# What the operator chooses


def test_default_budgets():
    usual = load_api_settings({}).rates
    assert {name: str(item) for name, item in usual.budgets.items()} == {
        READS: "6000 per 1 minute",
        SIGN_IN: "60 per 1 minute",
        OWNER: "600 per 1 minute",
    }
    assert usual.shared == {SIGN_IN, OWNER}


def test_budgets_are_configurable():
    chosen = load_api_settings(
        {
            "ISTHMUS_LIMIT_READS": "off",
            "ISTHMUS_LIMIT_OWNER": "5/second",
            "ISTHMUS_LIMITS_SHARED": "none",
        }
    ).rates
    assert set(chosen.budgets) == {SIGN_IN, OWNER}
    assert (chosen.budgets[OWNER].amount, chosen.budgets[OWNER].get_expiry()) == (5, 1)
    assert chosen.shared == frozenset()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ISTHMUS_LIMIT_READS", "many"),
        ("ISTHMUS_LIMIT_OWNER", "5/blink"),
        ("ISTHMUS_LIMITS_SHARED", "reads,writes"),
    ],
)
def test_bad_budget_is_refused_by_name(variable, value):
    with pytest.raises(ConfigurationError, match=variable):
        load_api_settings({variable: value})
