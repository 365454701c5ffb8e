"""Muxed contract addresses, `W…` (SEP-23, CAP-84): read and refused where they can be no owner."""

import pytest

from indexer.addresses import (
    muxed_contract,
    parse_muxed_contract,
    stellar_account,
    stellar_contract,
    stellar_holder,
)

RAW = bytes.fromhex("363eaa3867841fbad0f4ed88c779e4fe66e56a2470dc98c0ec9c073d05c7b103")
MUXED = "WA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAAAAAAAAAPCIA6IG"
CONTRACT = "CA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAXE"


def test_muxed_contract_has_the_strkey_of_its_vector() -> None:
    assert muxed_contract(RAW, 123456) == MUXED
    assert parse_muxed_contract(MUXED) == (CONTRACT, 123456)


@pytest.mark.parametrize("muxed_id", [0, 1, 2**63, 2**64 - 1])
def test_any_u64_is_a_muxed_id(muxed_id: int) -> None:
    assert parse_muxed_contract(muxed_contract(RAW, muxed_id)) == (CONTRACT, muxed_id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "W",
        CONTRACT,
        MUXED[:-1],
        MUXED + "A",
        MUXED.lower(),
        MUXED[:-1] + "H",
        MUXED[:20] + "A" + MUXED[21:],
        MUXED + "===",
        MUXED + "\n",
        "MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK",
    ],
)
def test_what_is_no_muxed_contract_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a muxed Stellar contract"):
        parse_muxed_contract(text)


@pytest.mark.parametrize("read", [stellar_account, stellar_contract, stellar_holder])
def test_muxed_contract_is_no_owner(read) -> None:
    with pytest.raises(ValueError, match=MUXED):
        read(MUXED)


def test_holder_given_as_muxed_contract_is_told_the_contract() -> None:
    with pytest.raises(ValueError, match=f"muxed id 123456 of {CONTRACT}"):
        stellar_holder(MUXED)
