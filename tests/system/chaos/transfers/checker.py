"""Who has what in the end, by the chains alone: nothing here asks the service, or its database.

What somebody must have follows from what he signed and from the bridges' rules, and was reckoned
when he signed it. Less of it in the world than there must be is a loss; more is a payment too many.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stellar_sdk import xdr

from devnet.bridges import DUST
from devnet.customers import ASSETS
from devnet.stellar.entries import Trustline
from devnet.transfers import Coin, Holding
from tests.system.chaos.chains import Chains

COINS: tuple[Coin, ...] = ("usdc", "usdt0")


class CheckerFailed(AssertionError):
    """The checker missed something that was planted, or saw what is not there."""


@dataclass
class Verdict:
    """What is wrong, a sentence each."""

    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Nothing is."""
        return not (self.lost or self.double or self.sums)


def supply(chains: Chains) -> Mapping[Coin, int]:
    """All that there is of each coin outside of the bridges, in units of 7 decimals."""
    return {coin: _on_evm(chains, coin) * DUST + _on_stellar(chains, coin) for coin in COINS}


def judge(
    chains: Chains, expected: Iterable[tuple[str, Holding]], before: Mapping[Coin, int]
) -> Verdict:
    """Of holdings that must be, by the transfer that they are of, and what there was before."""
    verdict = Verdict()
    for transfer, holding in expected:
        held = _held(chains, holding)
        if held == holding.amount:
            continue
        sentence = (
            f"{transfer}: {holding.holder} holds {held} {holding.coin} on {holding.chain}, and"
            f" must hold {holding.amount}"
        )
        (verdict.lost if held < holding.amount else verdict.double).append(sentence)
    after = supply(chains)
    verdict.sums += [
        f"there were {before[coin]} {coin} on both chains, and are {after[coin]}"
        for coin in COINS
        if before[coin] != after[coin]
    ]
    return verdict


def _held(chains: Chains, holding: Holding) -> int:
    if holding.chain == "stellar":
        return chains.paced.balance(holding.holder, ASSETS[holding.coin])
    return chains.evm.balance_of(_token(chains, holding.coin), holding.holder)


def _token(chains: Chains, coin: Coin) -> str:
    at = chains.evm.addresses
    return at.usdc if coin == "usdc" else at.usdt0


def _on_evm(chains: Chains, coin: Coin) -> int:
    """What is minted, without what the bridge keeps."""
    token = _token(chains, coin)
    [minted] = chains.evm.call(token, "totalSupply()", returns="(uint256)")
    kept: int = chains.evm.balance_of(token, chains.evm.addresses.oft)
    return int(minted) - kept


def _on_stellar(chains: Chains, coin: Coin) -> int:
    """Every trustline's balance."""
    asset, found = ASSETS[coin], 0
    for raw in chains.stellar.entries():
        entry = xdr.LedgerEntry.from_xdr_bytes(raw)
        if entry.data.type == xdr.LedgerEntryType.TRUSTLINE:
            line = Trustline.from_entry(entry.data)
            found += line.balance if line.asset == asset else 0
    return found
