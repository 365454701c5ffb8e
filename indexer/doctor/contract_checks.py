"""The checks of contracts. `evm_contracts` and `stellar_contracts` make them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal

from indexer.chain_state.fees import MAX_FEE_BPS, FeeReader
from indexer.config.networks import Network
from indexer.config.routes import MAX_USD
from indexer.doctor.checks import Check, CheckResult
from indexer.errors import PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import ChainId

REQUEST_SECONDS = 5.0
MIN_FEE_PER_BPS = 1_000
"""A contract's `minFee` is in 1/10,000,000 of the amount (BaseTokenMessenger)."""

READABLE = Check(
    "contract.readable",
    "A node answers every question about the chain's contracts.",
    "Run the group `nodes`: `isthmus doctor --only nodes`.",
)
CODE = Check(
    "contract.code",
    "There is a contract at the address of the network file.",
    "Compare the address with its publisher's page, and the node with its chain.",
)
CODE_HASH = Check(
    "contract.code_hash",
    "A Stellar contract runs the code whose hash the network file has.",
    "Its owner has upgraded it. Read what changed, then put the new hash into the network file.",
)
IMPLEMENTATION = Check(
    "contract.implementation",
    "The implementation that a proxy names (EIP-1967, or USDC's older slot) has code.",
    "Do not move money through it: ask its publisher.",
)
DECIMALS = Check(
    "contract.decimals",
    "A token has the decimals that amounts are counted in: 6 on EVM chains, 7 on Stellar.",
    "This address is another token: compare it with its publisher's page.",
)
PAUSED = Check(
    "contract.paused",
    "USDC, CCTP's contracts, and Stellar's OFT are not paused.",
    "Wait for its publisher. Transfers that need it wait too; nothing is lost.",
)
LINKS = Check(
    "contract.cctp_links",
    "CCTP's contracts of each chain know their own domain, each other, and the messenger and USDC "
    "of the other chain as the network file has them.",
    "Compare the addresses of the network file with Circle's contract pages, on both chains.",
)
ATTESTERS = Check(
    "contract.attesters",
    "The attesters and the number of signatures on the chain are the network file's.",
    "Compare both with Circle's announcement, then write them into the network file: "
    "attestations by others are not believed.",
)
BURN_LIMIT = Check(
    "contract.burn_limit",
    f"CCTP burns {MAX_USD} USDC, the most of a transfer, in one message.",
    "Larger burns revert until Circle raises the limit.",
)
MIN_FEE = Check(
    "contract.min_fee",
    "The least fee that CCTP's contract takes is covered by the one that quotes are made with.",
    "Burns of quotes revert until Circle's service names the fee that the contract requires.",
)
OFT = Check(
    "contract.oft",
    "The OFT moves the network file's token through its endpoint, with 6 shared decimals, and the "
    "endpoint has its id.",
    "Compare the addresses of the network file with LayerZero's and USDT0's lists.",
)
OFT_PEER = Check(
    "contract.oft_peer",
    "The OFT of each chain trusts the OFT of the other as the network file has it.",
    "A message to another peer is not delivered: leave the chain's OFT out of the network file "
    "until both agree.",
)
OFT_LIMIT = Check(
    "contract.oft_limit",
    f"The OFT's quote takes {MAX_USD} USDT0, the most of a transfer, and lets some arrive: it is "
    "neither paused nor at its rate limit.",
    "Wait until its limit allows it; until then such quotes are refused.",
)
CHECKS = (
    *(READABLE, CODE, CODE_HASH, IMPLEMENTATION, DECIMALS, PAUSED),
    *(LINKS, ATTESTERS, BURN_LIMIT, MIN_FEE, OFT, OFT_PEER, OFT_LIMIT),
)


@dataclass(frozen=True, slots=True)
class Expected:
    """A value on the chain and the one that it should be."""

    what: str
    actual: object
    wanted: object


def compare(check: Check, subject: str, values: Collection[Expected]) -> CheckResult:
    """One result for values that belong together; None is what a contract does not answer."""
    wrong = [
        f"{each.what} is {each.actual}, not {each.wanted}"
        if each.actual is not None
        else f"the contract names no {each.what.removeprefix('the ')}; it should be {each.wanted}"
        for each in values
        if each.actual != each.wanted
    ]
    if wrong:
        return check.failed(subject, "; ".join(wrong))
    return check.ok(subject, ", ".join(f"{each.what} {each.actual}" for each in values))


def check_attesters(
    network: Network, subject: str, found: Collection[str], threshold: int | None
) -> CheckResult:
    """Attesters on a chain (`0x…`, any case) and signatures needed, against the network file's."""
    on_chain = f"{threshold} of {', '.join(sorted(found))}"
    if not network.attesters:
        problem = (
            "the network file names no attesters, so no attestation is believed; the chain has "
            f"{on_chain}"
        )
        return ATTESTERS.failed(subject, problem)
    wanted = {each.lower() for each in network.attesters}
    if {each.lower() for each in found} == wanted and threshold == network.attestation_threshold:
        return ATTESTERS.ok(subject, on_chain)
    expected = f"{network.attestation_threshold} of {', '.join(sorted(wanted))}"
    return ATTESTERS.failed(subject, f"{on_chain} must sign, in the network file {expected}")


def check_min_fee(
    fees: FeeReader | None, subject: str, min_fee: int, source: ChainId, dest: ChainId
) -> CheckResult:
    """A contract's `minFee` against the fee of a quote.

    Without an answer of Circle's service, which is another group's finding, against the highest
    fee that a quote may have.
    """
    bps = Decimal(min_fee) / MIN_FEE_PER_BPS
    quoted = Decimal(MAX_FEE_BPS)
    if bps > 0 and fees is not None:
        try:
            quoted = fees.burn(source, dest).minimum_fee_bps
        except (RetryableChainError, PermanentChainError):
            quoted = Decimal(MAX_FEE_BPS)
    if bps > quoted:
        return MIN_FEE.failed(subject, f"it takes {bps} basis points, quotes have {quoted}")
    return MIN_FEE.ok(subject, f"{bps} basis points")


def check_burn_limit(subject: str, limit: int | None, decimals: int) -> CheckResult:
    """A contract's limit of one burn, base units; None for a token that it does not burn."""
    if limit is None or limit < MAX_USD * 10**decimals:
        return BURN_LIMIT.failed(subject, f"it burns at most {limit or 0} base units at once")
    return BURN_LIMIT.ok(subject, f"{limit} base units")


def check_paused(subject: str, is_paused: object) -> CheckResult:
    """The answer of `paused()`; None when there is none."""
    if is_paused is None:
        return PAUSED.failed(subject, "it does not say whether it is paused")
    return PAUSED.failed(subject, "it is paused") if is_paused else PAUSED.ok(subject)


def check_limit(subject: str, quote: tuple[int, int, int] | None, amount: int) -> CheckResult:
    """(least, most, received) of an OFT's quote for an amount; None when it reverts."""
    if quote is None:
        return OFT_LIMIT.failed(subject, f"its quote for {amount} base units reverts")
    least, most, received = quote
    if not least <= amount <= most or received <= 0:
        problem = f"it takes {least} to {most} base units; of {amount}, {received} would arrive"
        return OFT_LIMIT.failed(subject, problem)
    return OFT_LIMIT.ok(subject, f"takes up to {most} base units")


def readable(subject: str, results: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """Results of a chain's contracts; a node that stops to answer is one finding."""
    try:
        yield from results
    except (RetryableChainError, PermanentChainError) as error:
        yield READABLE.failed(subject, str(error))
    else:
        yield READABLE.ok(subject)
