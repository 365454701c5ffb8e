"""Checks of the services that the network file names: Circle's attestations, LayerZero Scan."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from indexer.chain_state.fees import FeeReader
from indexer.chains.http.client import host_of
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Chain, EvmChain
from indexer.config.settings import Settings
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import Bytes32, TxHash

REQUEST_SECONDS = 5.0

IRIS = Check(
    "service.iris",
    "Circle's attestation service answers a question about a transaction that does not exist.",
    "Look at https://status.circle.com and at this machine's way out; on a 429, wait five minutes.",
)
IRIS_FEES = Check(
    "service.iris_fees",
    "It names the fees of a burn between each followed chain and Stellar, each within 100 basis "
    "points.",
    "Quotes of this direction are refused until it does: compare with Circle's list of chains.",
)
SCAN = Check(
    "service.lz_scan",
    "LayerZero Scan answers a question about a message that does not exist.",
    "Transfers go on without it: it only hints at what the chains say later.",
)
_NO_WORD = Bytes32("0x" + "00" * 32)


@dataclass(frozen=True, slots=True)
class _NoPacket:
    """A LayerZero message that does not exist."""

    guid: Bytes32 = _NO_WORD
    src_eid: int = 0
    sender: Bytes32 = _NO_WORD
    nonce: int = 0


def check_services(context: DoctorContext) -> Iterator[CheckResult]:
    """Ask each service for what is not there, and Circle for its fees."""
    settings = context.settings
    if any(chain.cctp_domain is not None for chain in settings.followed):
        yield from _check_iris(context, settings.network.iris)
    if settings.network.lz_scan is not None:
        yield _check_scan(context, settings.network.lz_scan)


def _check_iris(context: DoctorContext, url: str | None) -> Iterator[CheckResult]:
    if url is None:
        yield IRIS.failed(
            context.settings.network.name,
            "no attestation service is named, and CCTP chains are followed",
            "Set ISTHMUS_IRIS_URL to the one of `isthmus demo`.",
        )
        return
    subject = host_of(url)
    context.begin(IRIS.id, subject)
    with closing(Iris(url, timeout=REQUEST_SECONDS)) as iris:
        try:
            iris.messages_of_transaction(0, TxHash(_NO_WORD))
        except (RetryableChainError, PermanentChainError) as error:
            yield IRIS.failed(subject, str(error))
            return
        yield IRIS.ok(subject)
        fees = FeeReader(context.settings.network, {}, iris)
        for source, dest in _directions(context.settings):
            path = f"{subject} {source.id} to {dest.id}"
            context.begin(IRIS_FEES.id, path)
            try:
                terms = fees.burn(source.id, dest.id)
            except (RetryableChainError, PermanentChainError) as error:
                yield IRIS_FEES.failed(path, str(error))
            else:
                yield IRIS_FEES.ok(path, f"{terms.minimum_fee_bps} basis points")


def _directions(settings: Settings) -> Iterator[tuple[Chain, Chain]]:
    stellar = settings.network.stellar
    if stellar.cctp_domain is None:
        return
    for chain in settings.followed:
        if isinstance(chain, EvmChain) and chain.cctp_domain is not None:
            yield chain, stellar
            yield stellar, chain


def _check_scan(context: DoctorContext, url: str) -> CheckResult:
    subject = host_of(url)
    context.begin(SCAN.id, subject)
    with closing(LzScan(url, timeout=REQUEST_SECONDS)) as scan:
        try:
            status = scan.status_of(_NoPacket())
        except (RetryableChainError, PermanentChainError) as error:
            return SCAN.failed(subject, str(error))
    if status is not None:
        return SCAN.failed(subject, f"it calls a message that does not exist {status.name}")
    return SCAN.ok(subject)


GROUP = CheckGroup((IRIS, IRIS_FEES, SCAN), check_services)
