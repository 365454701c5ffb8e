"""A loop outlasts what passes by itself, and nothing else."""

import time

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import OperationalError

from indexer.loops import is_transient, pause, pause_on_outage


def lost(error: psycopg.Error, *, invalidated: bool = False) -> OperationalError:
    return OperationalError("SELECT 1", {}, error, connection_invalidated=invalidated)


def work(error: Exception) -> None:
    raise error


PASSING = [
    errors.AdminShutdown(),
    errors.DeadlockDetected(),
    errors.TooManyConnections(),
    errors.LockNotAvailable(),
    errors.ConnectionFailure(),
    # The driver never reached a server: there is no SQLSTATE.
    psycopg.OperationalError("connection refused"),
]
STAYING = [errors.DiskFull(), errors.OutOfMemory(), errors.IoError()]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_loop_continues_after_transient_error(
    error: psycopg.OperationalError, caplog: pytest.LogCaptureFixture
) -> None:
    for raised in (lost(error), error):
        caplog.clear()
        with pause_on_outage("keeper", lambda: None):
            work(raised)
        assert "warehouse lost loop=keeper" in caplog.text


@pytest.mark.parametrize("error", STAYING, ids=lambda error: type(error).__name__)
def test_permanent_error_ends_loop(error: psycopg.OperationalError) -> None:
    assert not is_transient(lost(error))
    with pytest.raises(OperationalError), pause_on_outage("keeper", lambda: None):
        work(lost(error))


def test_lost_session_error_is_transient() -> None:
    assert is_transient(lost(errors.DiskFull(), invalidated=True))


def test_stop_ends_pause() -> None:
    began = time.monotonic()
    with pause_on_outage("keeper", lambda: pause(3600, lambda: True)):
        work(lost(errors.AdminShutdown()))
    assert time.monotonic() - began < 60


def test_other_errors_are_raised() -> None:
    with pytest.raises(ValueError, match="a bug"), pause_on_outage("keeper", lambda: None):
        work(ValueError("a bug"))
