"""SCVals read from bytes against the SDK, and those that protocol 30 adds."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import MuxedAccount, StrKey, scval

from indexer.bridges.cctp.events import MintAndForward
from indexer.chains.stellar.xdr import scval as ours
from indexer.chains.stellar.xdr.scval import Topics, parse
from indexer.decode.stellar import decode
from indexer.errors import Undecodable
from tests.factories.stellar_events import account, contract, make_stellar_event
from tests.factories.stellar_recorded import PUBNET
from tests.indexer.test_addresses import MUXED, RAW

KEY = bytes(range(32))
MUXED_XDR = b"\0\0\0\x12" + b"\0\0\0\5" + (123456).to_bytes(8, "big") + RAW
"""SCV_ADDRESS of kind 5: the id first, then the contract."""


@pytest.mark.parametrize(
    "strkey",
    [
        account("a"),
        contract("c"),
        str(MuxedAccount(account("a"), 2**64 - 2).account_muxed),
        StrKey.encode_claimable_balance(b"\0" + KEY),
        StrKey.encode_liquidity_pool(KEY),
    ],
)
def test_address_has_the_strkey_of_the_sdk(strkey: str) -> None:
    assert ours.address(parse(scval.to_address(strkey).to_xdr_bytes())) == strkey


def test_address_of_a_muxed_contract_is_its_strkey() -> None:
    assert ours.address(parse(MUXED_XDR)) == MUXED


NUMBERS = {
    ours.u32: (scval.to_uint32, (0, 2**32 - 1)),
    ours.u64: (scval.to_uint64, (0, 2**64 - 1)),
    ours.signed_amount: (scval.to_int128, (-(2**127), 2**127 - 1)),
}


@given(st.data())
def test_number_is_read_as_the_sdk_wrote_it(data: Any) -> None:
    for read, (write, (least, most)) in NUMBERS.items():
        number = data.draw(st.integers(least, most))
        assert read(parse(write(number).to_xdr_bytes())) == number


@given(st.binary(max_size=40))
def test_bytes_are_read_as_the_sdk_wrote_them(raw: bytes) -> None:
    assert ours.blob(parse(scval.to_bytes(raw).to_xdr_bytes())) == raw
    assert ours.string(parse(scval.to_string(raw).to_xdr_bytes())) == raw
    values = [scval.to_bytes(raw), scval.to_vec([scval.to_bytes(raw)]), scval.to_void()]
    first, inner, last = ours.vector(parse(scval.to_vec(values).to_xdr_bytes()))
    assert ours.blob(first) == ours.blob(*ours.vector(inner)) == raw
    assert last.kind is ours.Kind.SCV_VOID
    struct = parse(scval.to_struct({"a": values[0], "b": values[1]}).to_xdr_bytes())
    assert ours.blob(ours.mapping(struct)["a"]) == raw


@pytest.mark.parametrize("given", [True, False])
def test_bool_is_read_as_the_sdk_wrote_it(given: bool) -> None:
    assert ours.boolean(parse(scval.to_bool(given).to_xdr_bytes())) is given


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\0\x63",
        scval.to_uint64(7).to_xdr_bytes()[:-4],
        scval.to_uint64(7).to_xdr_bytes() + bytes(4),
        MUXED_XDR[:-4],
        b"\0\0\0\x12\0\0\0\6" + bytes(40),
        b"\0\0\0\x10\0\0\0\1\0\0\0\1" * 100_000,
    ],
)
def test_bytes_other_than_one_scval_are_undecodable(raw: bytes) -> None:
    with pytest.raises(Undecodable, match="not the XDR of an SCVal"):
        parse(raw)


@pytest.mark.parametrize("read", [ours.vector, ours.mapping, ours.address, ours.u64, ours.text])
def test_value_of_another_kind_is_undecodable(read: Any) -> None:
    with pytest.raises(Undecodable, match="is SCV_U32, not a"):
        read(parse(scval.to_uint32(7).to_xdr_bytes()))


@pytest.mark.parametrize(("read", "kind"), [(ours.vector, 16), (ours.mapping, 17)])
def test_missing_optional_key_is_undecodable(read: Any, kind: int) -> None:
    with pytest.raises(Undecodable, match="of nothing"):
        read(parse(kind.to_bytes(4, "big") + bytes(4)))


def test_event_with_a_muxed_contract_is_decoded() -> None:
    event = make_stellar_event(
        str(PUBNET.cctp_forwarder),
        [scval.to_symbol("mint_and_forward")],
        scval.to_struct(
            {
                "amount": scval.to_int128(5),
                "forward_recipient": scval.to_address(contract("c")),
                "token": scval.to_address(PUBNET.usdc_contract),
            }
        ),
    )
    plain = scval.to_address(contract("c")).to_xdr_bytes()
    muxed = dataclasses.replace(event, value=event.value.replace(plain, MUXED_XDR))
    decoded = decode(muxed, PUBNET)
    assert isinstance(decoded, MintAndForward)
    assert decoded.forward_recipient == MUXED
    (topic,) = Topics.of(dataclasses.replace(event, topics=(MUXED_XDR,)), 1).values
    assert ours.address(topic) == MUXED
