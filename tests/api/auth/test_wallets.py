"""Account of an identity provider's user, and its cache during an outage."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from stellar_sdk import Keypair

from api.auth.bindings import Bindings
from api.auth.claims import BadToken
from api.auth.key_set import pinned_key
from api.auth.provider import MAX_CONCURRENT_REQUESTS
from api.errors import IdentityUnavailable, NoStellarWallet, WalletChanged
from devnet.identity.provider import ISSUER, wallet
from tests.factories.identity import IMPATIENT
from tests.factories.tokens import ACCOUNT
from warehouse_schema.access import subjects

OTHER = Keypair.from_raw_ed25519_seed(b"other wallet of a user, 32 bytes").public_key
CONTRACT = "CA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAXE"
DAY = 86_400


def lookups(world):
    return sum(call.startswith("users") for call in world.stand_in.calls)


def bound(rows, user):
    return rows.scalar(select(subjects.c.account).where(subjects.c.subject == user))


@pytest.mark.parametrize(
    "accounts",
    [
        [wallet(ACCOUNT)],
        [wallet(ACCOUNT, imported=True, delegated=True)],
        [wallet(OTHER, wallet_index=1), wallet(ACCOUNT, wallet_index=0)],
        [wallet(OTHER, first_verified_at=2), wallet(ACCOUNT, first_verified_at=1)],
        [wallet(OTHER, wallet_index=None), wallet(ACCOUNT, wallet_index=7)],
        [wallet(OTHER, first_verified_at=None), wallet(ACCOUNT, first_verified_at=9)],
        [wallet(OTHER, chain_type="ethereum"), wallet(ACCOUNT, wallet_index=3)],
        [wallet(OTHER, connector_type="injected"), wallet(ACCOUNT, wallet_index=3)],
        [wallet("GARBAGE"), wallet(ACCOUNT, wallet_index=3)],
        [{"type": "cross_app", "embedded_wallets": [wallet(OTHER)]}, wallet(ACCOUNT)],
        [wallet(ACCOUNT, something_new={"a": [1]})],
    ],
)
def test_first_embedded_wallet_is_the_account(world, accounts, rows):
    user = world.stand_in.add_user(*accounts)
    assert world.wallets().account_of(user) == ACCOUNT
    assert bound(rows, user) == ACCOUNT


@pytest.mark.parametrize(
    "accounts",
    [
        [{"type": "email", "address": ACCOUNT}],
        [wallet(ACCOUNT, type="smart_wallet")],
        [wallet(ACCOUNT, chain_type="ethereum")],
        [wallet(ACCOUNT, chain_type="Stellar")],
        [wallet(ACCOUNT, wallet_client_type="unknown", wallet_client="unknown")],
        [wallet(ACCOUNT, connector_type="injected")],
        [wallet(ACCOUNT, connector_type=None)],
        [{"type": "cross_app", "embedded_wallets": [wallet(ACCOUNT)]}],
        [wallet(ACCOUNT.lower())],
        [wallet(f" {ACCOUNT}")],
        [wallet(ACCOUNT[:-1] + "A")],
        [wallet(CONTRACT)],
        [wallet("0x1c7d4b196cb0c7b01d743fbc6116a902379c7238")],
    ],
)
def test_user_without_wallet_is_refused(world, accounts, rows):
    user = world.stand_in.add_user(*accounts)
    with pytest.raises(NoStellarWallet):
        world.wallets().account_of(user)
    assert bound(rows, user) is None


def test_missing_wallet_returns_403(world):
    user = world.stand_in.add_user({"type": "email", "address": "x"})
    answer = world.client().get(
        "/v1/session", headers={"Authorization": f"Bearer {world.token(user)}"}
    )
    assert (answer.status_code, answer.json["code"]) == (403, "NO_STELLAR_WALLET")


@pytest.mark.parametrize(
    ("fault", "status", "code", "again"),
    [
        # How often the provider is asked: once more when that may help.
        ("slow", 503, "IDENTITY_UNAVAILABLE", 2),
        ("down", 503, "IDENTITY_UNAVAILABLE", 2),
        ("429", 503, "IDENTITY_UNAVAILABLE", 1),
        ("nonsense", 503, "IDENTITY_UNAVAILABLE", 1),
        ("refused", 503, "IDENTITY_UNAVAILABLE", 1),
        ("404", 401, "UNAUTHORIZED", 1),
    ],
)
def test_provider_failure_returns_503(world, fault, status, code, again):
    user = world.stand_in.add_user()
    world.stand_in.faults = {"users": fault}
    keys = None
    if fault == "slow":
        world.timeout = IMPATIENT
        # Pinned: reading the key set must not time out first.
        keys = pinned_key(world.stand_in.key.public_key())
    client, token = world.client(keys=keys), world.token(user)
    answer = client.get("/v1/session", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)
    assert lookups(world) == again


def test_unreadable_key_set_returns_503(world):
    user = world.stand_in.add_user()
    client, headers = world.client(), {"Authorization": f"Bearer {world.token(user)}"}
    for fault in ("down", "429", "404", "nonsense", "refused"):
        world.stand_in.faults = {"keys": fault}
        assert client.get("/v1/session", headers=headers).status_code == 503
        world.timer.now += 5
    world.stand_in.faults = {}
    assert client.get("/v1/session", headers=headers).status_code == 200


def test_slow_key_set_returns_503(world):
    world.timeout = IMPATIENT
    headers = {"Authorization": f"Bearer {world.token(world.stand_in.add_user())}"}
    world.stand_in.faults = {"keys": "slow"}
    assert world.client().get("/v1/session", headers=headers).status_code == 503


def test_wrong_credentials_are_logged_as_error(world, caplog):
    user = world.stand_in.add_user()
    with pytest.raises(IdentityUnavailable):
        world.provider(app_secret="wrong").wallets(user)
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == [
        f"identity provider at {world.url.removeprefix('http://')} refuses our credentials"
    ]


def test_unreachable_provider_is_unavailable(world):
    with pytest.raises(IdentityUnavailable):
        world.provider(url="http://127.0.0.1:1").wallets("did:privy:a")


@pytest.mark.parametrize(("fault", "seconds"), [("down", 5), ("429", 7), ("nonsense", 5)])
def test_backoff_after_provider_failure(world, fault, seconds):
    wallets, user = world.wallets(), world.stand_in.add_user(wallet(ACCOUNT))
    world.stand_in.faults = {"users": fault}
    with pytest.raises(IdentityUnavailable):
        wallets.account_of(user)
    lookups_before = lookups(world)
    world.stand_in.faults = {}
    world.timer.now += seconds - 1
    for name in (user, "did:privy:another"):
        with pytest.raises(IdentityUnavailable):
            wallets.account_of(name)
    assert lookups(world) == lookups_before
    world.timer.now += 1
    assert wallets.account_of(user) == ACCOUNT


def test_response_for_another_user_is_unavailable(world):
    user = world.stand_in.add_user(wallet(ACCOUNT))
    real = world.stand_in.user

    def about_another(subject, *more):
        answer = real(subject, *more)
        answer.body["id"] = "did:privy:another"
        return answer

    world.stand_in.user = about_another
    with pytest.raises(IdentityUnavailable):
        world.wallets().account_of(user)


def test_wallet_is_cached_for_10_minutes(world):
    wallets, user = world.wallets(), world.stand_in.add_user(wallet(ACCOUNT))
    for after in (0, 1, 598):
        world.timer.now += after
        assert wallets.account_of(user) == ACCOUNT
    assert lookups(world) == 1
    world.timer.now += 1
    assert wallets.account_of(user) == ACCOUNT
    assert lookups(world) == 2


def test_new_wallet_is_found_within_20_seconds(world):
    wallets, user = world.wallets(), world.stand_in.add_user({"type": "email"})
    with pytest.raises(NoStellarWallet):
        wallets.account_of(user)
    world.stand_in.users[user] = [wallet(ACCOUNT)]
    world.timer.now += 19
    with pytest.raises(NoStellarWallet):
        wallets.account_of(user)
    assert lookups(world) == 1
    world.timer.now += 1
    assert wallets.account_of(user) == ACCOUNT


def test_unknown_user_is_cached(world):
    wallets = world.wallets()
    for _ in range(3):
        with pytest.raises(BadToken):
            wallets.account_of("did:privy:unknown")
    assert lookups(world) == 1


def age(rows, seconds):
    """As if the provider had confirmed everything that long ago."""
    ago = func.now() - timedelta(seconds=seconds)
    rows.execute(update(subjects).values(confirmed_at=ago))


def test_confirmed_account_is_valid_for_a_day(world, rows):
    user = world.stand_in.add_user(wallet(ACCOUNT))
    world.wallets().account_of(user)
    world.stand_in.faults = {"users": "down"}
    age(rows, DAY - 60)
    # In a process that was started since, too.
    restarted = world.wallets()
    assert restarted.account_of(user) == ACCOUNT
    lookups_before = lookups(world)
    assert restarted.account_of(user) == ACCOUNT
    assert lookups(world) == lookups_before
    age(rows, DAY + 1)
    world.timer.now += 30
    with pytest.raises(IdentityUnavailable):
        restarted.account_of(user)


def test_revoked_confirmation_is_refused_in_outage(world):
    user = world.stand_in.add_user(wallet(ACCOUNT))
    world.wallets().account_of(user)
    for rewound, refusal in (
        (lambda: world.stand_in.users.update({user: [wallet(OTHER)]}), WalletChanged),
        (lambda: world.stand_in.users.update({user: []}), NoStellarWallet),
        (lambda: world.stand_in.users.pop(user), BadToken),
    ):
        world.stand_in.users[user] = [wallet(ACCOUNT)]
        assert world.wallets().account_of(user) == ACCOUNT
        rewound()
        with pytest.raises(refusal):
            world.wallets().account_of(user)
        world.stand_in.faults = {"users": "down"}
        with pytest.raises(IdentityUnavailable):
            world.wallets().account_of(user)
        world.stand_in.faults = {}


def test_bound_user_is_never_moved(world, rows, caplog):
    user = world.stand_in.add_user(wallet(ACCOUNT, wallet_index=5))
    assert world.wallets().account_of(user) == ACCOUNT
    # Another wallet comes first now, and the bound one still counts.
    world.stand_in.users[user].append(wallet(OTHER, wallet_index=0))
    assert world.wallets().account_of(user) == ACCOUNT
    # The bound one is gone.
    world.stand_in.users[user] = [wallet(OTHER)]
    wallets = world.wallets()
    for _ in range(2):
        with pytest.raises(WalletChanged):
            wallets.account_of(user)
    assert [r.levelname for r in caplog.records if "has lost the wallet" in r.message] == ["ERROR"]
    assert bound(rows, user) == ACCOUNT
    # It comes back.
    world.stand_in.users[user] = [wallet(ACCOUNT)]
    world.timer.now += 20
    assert wallets.account_of(user) == ACCOUNT


def test_wallet_changed_names_the_operator(world):
    user = world.stand_in.add_user(wallet(ACCOUNT))
    world.wallets().account_of(user)
    world.stand_in.users[user] = [wallet(OTHER)]
    headers = {"Authorization": f"Bearer {world.token(user)}"}
    answer = world.client().get("/v1/session", headers=headers)
    assert (answer.status_code, answer.json["code"]) == (403, "WALLET_CHANGED")


def test_concurrent_first_uses_bind_once(world, reader, rows):
    user, meeting, results = "did:privy:twice", threading.Barrier(2), []
    mine = [world.provider().wallets(world.stand_in.add_user(wallet(a))) for a in (ACCOUNT, OTHER)]

    def bind(wallets):
        meeting.wait()
        results.append(Bindings(reader, ISSUER).settle(user, wallets))

    together([lambda w=w: bind(w) for w in mine])
    assert sorted(results, key=str) == sorted([bound(rows, user), None], key=str)


def together(tasks):
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_concurrent_requests_of_user_look_up_once(world):
    wallets, user = world.wallets(), world.stand_in.add_user(wallet(ACCOUNT))
    meeting, results = threading.Barrier(8), []

    def ask():
        meeting.wait()
        results.append(wallets.account_of(user))

    together([ask] * 8)
    assert (results, lookups(world)) == ([ACCOUNT] * 8, 1)
    assert wallets._lookups == {}


def test_threads_waiting_for_provider_are_limited(world):
    world.timeout = IMPATIENT
    wallets = world.wallets()
    world.stand_in.faults = {"users": "slow"}
    users, refused = [f"did:privy:{n}" for n in range(3 * MAX_CONCURRENT_REQUESTS)], []

    def ask(user):
        with pytest.raises(IdentityUnavailable):
            wallets.account_of(user)
        refused.append(user)

    together([lambda u=u: ask(u) for u in users])
    assert len(refused) == len(users)
    # Those that got a place asked twice; who came later was told at once.
    assert lookups(world) == 2 * MAX_CONCURRENT_REQUESTS


def test_wallet_cache_is_bounded(world):
    wallets = world.wallets(max_cached=2)
    users = [world.stand_in.add_user() for _ in range(3)]
    for user in users:
        wallets.account_of(user)
    assert set(wallets._cache) == set(users[1:])


def test_bindings_are_per_issuer(world, reader, rows):
    wallets = world.provider().wallets(world.stand_in.add_user(wallet(ACCOUNT)))
    others = world.provider().wallets(world.stand_in.add_user(wallet(OTHER)))
    assert Bindings(reader, ISSUER).settle("did:privy:a", wallets) == ACCOUNT
    assert Bindings(reader, "other.test").settle("did:privy:a", others) == OTHER
