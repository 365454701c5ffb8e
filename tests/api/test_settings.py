"""The api's settings: what is usual, what is chosen, and what is refused by name."""

import pytest

from api.settings import load_api_settings
from indexer.errors import ConfigurationError


def test_how_many_streams_an_api_serves_is_the_operators_choice() -> None:
    usual = load_api_settings({"ISTHMUS_STREAMS": ""})
    assert (usual.streams, usual.streams_per_address, usual.proxies) == (2_000, 50, 0)
    environment = {
        "ISTHMUS_STREAMS": "0",
        "ISTHMUS_STREAMS_PER_ADDRESS": "7",
        "ISTHMUS_PROXIES": "1",
    }
    chosen = load_api_settings(environment)
    assert (chosen.streams, chosen.streams_per_address, chosen.proxies) == (0, 7, 1)


@pytest.mark.parametrize(
    ("environment", "message"),
    [({"ISTHMUS_STREAMS": "-1"}, "ISTHMUS_STREAMS is '-1'; it must be a whole number")],
)
def test_a_bad_setting_is_refused_by_name(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_api_settings(environment)
