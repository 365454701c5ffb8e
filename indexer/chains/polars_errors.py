"""Errors of polars, for callers that have read and decoded without it and can again."""

from collections.abc import Iterator
from contextlib import contextmanager

from polars.exceptions import PolarsError


@contextmanager
def polars_errors_as_value_errors() -> Iterator[None]:
    """Turn polars' errors into `ValueError`. Also a decorator."""
    try:
        yield
    except PolarsError as error:
        raise ValueError(f"polars: {error}") from error
