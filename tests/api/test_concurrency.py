"""Limits of threads that wait for a chain: a silent chain delays no other."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.actions.sources import LimitedEvmSource
from api.concurrency import MAX_CONCURRENT, MAX_PER_CHAIN
from api.errors import Unavailable
from api.quotes.fees import LimitedFees
from indexer.actions.mint_check import MintRefusal
from tests.factories.acting import FixedEvm
from tests.factories.quotes import FixedFees
from warehouse_schema.identifiers import ChainId, EvmAddress, Wei

SILENT, WELL = ChainId("eip155:1"), ChainId("eip155:8453")
RECIPIENT = EvmAddress("0x" + "11" * 20)


class Silence:
    """Keeps every question about the silent chain waiting, until it is released."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.released = threading.Event()

    def __call__(self, chain: ChainId) -> None:
        if chain == SILENT:
            self.asked.release()
            self.released.wait(60)


def recipients(silence: Silence) -> Callable[[ChainId], object]:
    class Source(FixedEvm):
        def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
            silence(chain)
            return None

    few = LimitedEvmSource(Source())
    return lambda chain: few.mint_refusal(chain, RECIPIENT)


def gas_prices(silence: Silence) -> Callable[[ChainId], object]:
    class Source(FixedFees):
        def gas_price(self, chain: ChainId) -> Wei:
            silence(chain)
            return Wei(10**9)

    return LimitedFees(Source()).gas_price


@pytest.mark.parametrize("source", [recipients, gas_prices])
def test_silent_chain_holds_up_no_other_chain(
    source: Callable[[Silence], Callable[[ChainId], object]],
) -> None:
    silence = Silence()
    ask = source(silence)
    with ThreadPoolExecutor(MAX_CONCURRENT) as threads:
        waiting = [threads.submit(ask, SILENT) for _ in range(MAX_CONCURRENT)]
        try:
            for _ in range(MAX_PER_CHAIN):
                assert silence.asked.acquire(timeout=60)
            with pytest.raises(Unavailable):
                ask(SILENT)
            assert ask(WELL) == ask(WELL)
        finally:
            silence.released.set()
    assert sum(each.exception() is None for each in waiting) > 0
