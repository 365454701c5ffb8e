"""The provider's key set: cache lifetime and request rate."""

import json
import threading

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from api.auth.claims import BadToken
from api.auth.key_set import KeySet, parse_key_set
from api.errors import IdentityUnavailable
from tests.factories.identity import Timer
from tests.factories.tokens import private_key

HOUR, DAY = 3600, 86_400


def jwk(name, **changes):
    public = private_key(name).public_key()
    shown = jwt.algorithms.ECAlgorithm.to_jwk(public, as_dict=True)
    return {**shown, "kid": name, "use": "sig", "alg": "ES256", **changes}


def written(*names):
    return json.dumps({"keys": [jwk(name) for name in names]}).encode()


class Source:
    """A key set to read, or not, and how often it was."""

    def __init__(self, *names):
        self.body = written(*names)
        self.down = False
        self.requests = 0

    def __call__(self):
        self.requests += 1
        if self.down:
            raise IdentityUnavailable
        return self.body


def public(name):
    return private_key(name).public_key()


def made(*names):
    source, timer = Source(*names), Timer()
    return source, timer, KeySet(source, timer=timer)


def test_key_set_is_read_once_an_hour():
    source, timer, keys = made("a", "b")
    for after in (0, 1, HOUR - 2):
        timer.now += after
        assert keys.key("a") == public("a")
        assert keys.key("b") == public("b")
    assert source.requests == 1
    timer.now += 1
    assert keys.key("a") == public("a")
    assert source.requests == 2


def test_withdrawn_key_is_refused_after_an_hour():
    source, timer, keys = made("a", "b")
    keys.key("b")
    source.body = written("a")
    timer.now += HOUR
    with pytest.raises(BadToken):
        keys.key("b")


def test_forged_kid_costs_one_request_a_minute():
    source, timer, keys = made("a")
    keys.key("a")
    for second in range(121):
        timer.now = 1000 + second
        for name in (f"forged-{second}", ""):
            with pytest.raises(BadToken):
                keys.key(name)
    assert source.requests == 3


def test_new_key_is_found_within_a_minute():
    source, timer, keys = made("a")
    keys.key("a")
    source.body = written("a", "new")
    timer.now += 59
    with pytest.raises(BadToken):
        keys.key("new")
    timer.now += 1
    assert keys.key("new") == public("new")


def test_cached_keys_stay_valid_for_a_day():
    source, timer, keys = made("a")
    keys.key("a")
    source.down = True
    timer.now += DAY - 1
    assert keys.key("a") == public("a")
    # Who brings a name that it does not have may have a new key: nobody can say.
    with pytest.raises(IdentityUnavailable):
        keys.key("new")
    timer.now += 1
    with pytest.raises(IdentityUnavailable):
        keys.key("a")
    source.down = False
    timer.now += 5
    assert keys.key("a") == public("a")


def test_failed_read_is_retried_every_5_seconds():
    source, timer, keys = made("a")
    source.down = True
    for second in range(10):
        timer.now = 1000 + second
        with pytest.raises(IdentityUnavailable):
            keys.key("a")
    assert source.requests == 2


def test_token_without_kid_needs_single_key():
    assert made("a")[2].key(None) == public("a")
    with pytest.raises(BadToken):
        made("a", "b")[2].key(None)


def test_concurrent_reads_send_one_request():
    source, _, keys = made("a")
    meeting, found = threading.Barrier(8), []

    def ask():
        meeting.wait()
        found.append(keys.key("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), source.requests) == (8, 1)


def test_stale_key_does_not_wait_for_refresh():
    timer, reading, answered = Timer(), threading.Event(), threading.Event()
    answered.set()

    def slow():
        reading.set()
        assert answered.wait(30)
        return written("a")

    keys = KeySet(slow, timer=timer)
    keys.key("a")
    timer.now += HOUR
    reading.clear()
    answered.clear()
    other = threading.Thread(target=keys.key, args=("a",))
    other.start()
    assert reading.wait(30)
    assert keys.key("a") == public("a")
    answered.set()
    other.join()


def test_only_p256_signing_keys_are_used():
    p384 = private_key("p384", ec.SECP384R1).public_key()
    strangers = [
        jwk("encrypts", use="enc"),
        jwk("another algorithm", alg="ES384"),
        jwt.algorithms.ECAlgorithm.to_jwk(p384, as_dict=True) | {"kid": "P-384"},
        jwt.algorithms.ECAlgorithm.to_jwk(private_key("x"), as_dict=True) | {"kid": "private"},
        jwt.algorithms.OKPAlgorithm.to_jwk(
            ed25519.Ed25519PrivateKey.generate().public_key(), as_dict=True
        )
        | {"kid": "EdDSA"},
        jwt.algorithms.RSAAlgorithm.to_jwk(
            rsa.generate_private_key(65537, 2048).public_key(), as_dict=True
        )
        | {"kid": "RSA"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"},
        {key: value for key, value in jwk("nameless").items() if key != "kid"},
    ]
    good = jwk("good")
    assert set(parse_key_set(json.dumps({"keys": [*strangers, good]}).encode())) == {"good"}
    with pytest.raises(IdentityUnavailable):
        parse_key_set(json.dumps({"keys": strangers}).encode())


NO_KEY_SETS = [
    *(b"", b"<html>", b"[]", b"7", b"null", b"{}", b"[" * 100_000, b"\xff\xfe"),
    *(b'{"keys": []}', b'{"keys": 7}', b'{"keys": [7]}', b'{"keys": [{}]}'),
    b'{"keys": [{"kty": "EC"}]}',
]


def test_invalid_key_set_is_unavailable(subtests):
    for body in NO_KEY_SETS:
        with subtests.test(body=body), pytest.raises(IdentityUnavailable):
            parse_key_set(body)
