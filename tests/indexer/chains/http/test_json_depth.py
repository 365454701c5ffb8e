"""Nesting depth of JSON, measured before it is parsed."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.http.client import exceeds_json_depth

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a"\\[]{}\n'), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('"\\[{}x'), max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth_of(value: object) -> int:
    inner = (
        value if isinstance(value, list) else value.values() if isinstance(value, dict) else None
    )
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(VALUES, st.booleans())
def test_depth_equals_the_parsed_depth(value: object, plain: bool) -> None:
    text = json.dumps(value, ensure_ascii=plain, indent=None if plain else 1)
    depth = depth_of(value)
    assert not exceeds_json_depth(text, depth)
    assert depth == 0 or exceeds_json_depth(text, depth - 1)


@pytest.mark.parametrize(
    "text",
    ["[" * 33, '{"a":' * 33, "[" * 33 + "]" * 33, '"a" ' + "[" * 33, '"\\\\"' + "[" * 33],
)
def test_truncated_deep_text_exceeds_the_depth(text: str) -> None:
    assert exceeds_json_depth(text, 32)


@pytest.mark.parametrize("text", ["", "[]" * 1000, '"' + "[" * 100, '["\\"' + "[" * 100 + '"]'])
def test_siblings_and_strings_add_no_depth(text: str) -> None:
    assert not exceeds_json_depth(text, 1)


@pytest.mark.parametrize("piece", ['"\\', '\\"', '"', "\\", '"a\\"', "[]", '"]'])
def test_scan_time_is_linear(piece: str) -> None:
    began = time.process_time()
    exceeds_json_depth(piece * 500_000, 32)
    # A second time over what was seen would be minutes.
    assert time.process_time() - began < 10
