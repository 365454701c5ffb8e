"""What the API says, as the page must show it; reckoned here with nothing of the page's."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

TIERS = ("hand", "one attestor", "enclave or witnesses", "proof")
SIDES = {"onramp": "Buy", "offramp": "Sell"}

Entry = Mapping[str, Any]


def grouped(text: str, least: int = 0) -> str:
    """A decimal text with its thousands grouped and no fewer decimals than `least`."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.ljust(least, "0")
    return f"{int(whole):,}" + (f".{fraction}" if fraction else "")


def short(address: str) -> str:
    return f"{address[:4]}…{address[-4:]}"


def offer_row(entry: Entry) -> dict[str, str]:
    """A row of the offers' table, but for what the clock moves."""
    locked = "" if entry["lockedUsdc"] == "0" else f" {grouped(entry['lockedUsdc'])} locked"
    return {
        "Side": SIDES[entry["direction"]],
        "Rate": f"{grouped(entry['rate'], 2)} {entry['currency']}",
        "Order size, USDC": f"{grouped(entry['minAmount'])} – {grouped(entry['maxAmount'])}",
        "Available, USDC": f"{grouped(entry['availableUsdc'])}{locked}",
        "Rails": " ".join(entry["acceptedRails"]),
        "Verified by": TIERS[entry["trustTier"]],
        "Fee": f"{Decimal(entry['feeRateBps']) / 100:f} %".replace(".00 ", " "),
        "Provider": short(entry["provider"]),
    }


def rate_of(order: Entry) -> str:
    """The rate of the terms, which have few decimals in these tests."""
    with localcontext(prec=60):
        rate = Decimal(order["fiatAmount"]) / Decimal(order["amountUsdc"])
        return f"{rate.quantize(Decimal('0.00001')).normalize():f}"


def order_row(order: Entry) -> dict[str, str]:
    """A row of the orders' table, but for what the clock moves."""
    return {
        "Side": SIDES[order["direction"]],
        "USDC": grouped(order["amountUsdc"]),
        "Fiat": f"{grouped(order['fiatAmount'], 2)} {order['currency']}",
        "Rate": f"{grouped(rate_of(order), 2)} {order['currency']}",
        "Rail": order["rail"],
        "Status": order["status"],
        "Provider": short(order["provider"]),
        "Taker": short(order["buyer"]),
    }


def is_shown(shown: Sequence[Mapping[str, str]], expected: Iterable[Mapping[str, str]]) -> bool:
    """Whether these rows are shown, in this order; a cell may say more than is expected."""
    wanted = list(expected)
    return len(shown) == len(wanted) and all(
        " ".join(row[name].split()).startswith(text)
        for row, cells in zip(shown, wanted, strict=True)
        for name, text in cells.items()
    )


def depth(offers: Iterable[Entry], currency: str, direction: str) -> list[tuple[str, str, str]]:
    """Rate, cumulative USDC and providers, the taker's best rate first.

    At each rate: everyone who offers at it or better, with all they have.
    """
    side = [o for o in offers if (o["currency"], o["direction"]) == (currency, direction)]
    sign = 1 if direction == "onramp" else -1
    rows = []
    with localcontext(prec=60):
        for rate in sorted({Decimal(offer["rate"]) for offer in side}, key=lambda r: sign * r):
            there = {
                offer["provider"]: Decimal(offer["availableUsdc"])
                for offer in side
                if sign * Decimal(offer["rate"]) <= sign * rate
            }
            total = sum(there.values(), Decimal(0)).normalize()
            rows.append((grouped(f"{rate:f}", 2), grouped(f"{total:f}"), str(len(there))))
    return rows
