"""Checks of the contracts that the network file names, on followed chains."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from indexer.chain_state.fees import FeeReader
from indexer.chains.http.operators import http_urls
from indexer.chains.services.circle import Iris
from indexer.config.networks import Chain, EvmChain
from indexer.doctor.checks import CheckGroup, CheckResult, DoctorContext
from indexer.doctor.contract_checks import CHECKS, REQUEST_SECONDS, readable
from indexer.doctor.evm_contracts import EvmContractChecks
from indexer.doctor.stellar_contracts import StellarContractChecks

_THREADS = 8


def check_contracts(context: DoctorContext) -> Iterator[CheckResult]:
    """Check the contracts of every followed chain, several chains at a time.

    Chains in `context.unreadable`, and those without an http(s) URL, are a finding of `nodes`.
    """
    settings = context.settings
    chains = [
        chain
        for chain in settings.followed
        if chain.id not in context.unreadable and http_urls(settings.nodes[chain.id])
    ]
    with ExitStack() as stack:
        fees = None
        if settings.network.iris is not None:
            iris = stack.enter_context(
                closing(Iris(settings.network.iris, timeout=REQUEST_SECONDS))
            )
            fees = FeeReader(settings.network, {}, iris)
        threads = stack.enter_context(ThreadPoolExecutor(_THREADS))

        def check(chain: Chain) -> list[CheckResult]:
            checks = (
                EvmContractChecks(context, chain, fees)
                if isinstance(chain, EvmChain)
                else StellarContractChecks(context, fees)
            )
            return list(readable(chain.id, checks.run()))

        for results in threads.map(check, chains):
            yield from results


GROUP = CheckGroup(CHECKS, check_contracts)
