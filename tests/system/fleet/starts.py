"""Starts of transfers that the request generator sends: a token and a quote each."""

import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from api.auth.tokens import Tokens
from devnet.keys import in_files
from indexer.config.networks import load_network
from tests.factories.projections import address
from tests.factories.started import insert_quote
from tests.factories.tokens import private_key, private_pem
from warehouse_schema.identifiers import UnixSeconds

OWNERS = 250
"""No owner reaches a limit of transfers."""
_KEY = "fleet"
_QUOTE_SECONDS = 7_200


@dataclass(frozen=True)
class Starts:
    """The API's key of tokens, and the quotes' owners."""

    url: str
    """Of the API, as its tokens name it."""

    def variables(self, folder: Path) -> dict[str, str]:
        """Settings of an API that accepts the tokens."""
        pem = private_pem(private_key(_KEY))
        return in_files(folder, {"ISTHMUS_URL": self.url, "ISTHMUS_TOKEN_KEY": pem})

    def insert(self, engine: Engine, number: int) -> list[tuple[str, str]]:
        """Insert so many quotes as the owner of the warehouse; token and quote of each."""
        issuer = Tokens(private_key(_KEY), issuer=self.url, clock=_now)
        owners = [address(each) for each in range(OWNERS)]
        tokens = {owner: issuer.issue(owner, jti=owner) for owner in owners}
        network = load_network("devnet")
        [evm] = network.evm
        found = []
        with engine.begin() as conn:
            for each in range(number):
                owner = owners[each % OWNERS]
                quote = insert_quote(
                    conn,
                    seconds=_QUOTE_SECONDS,
                    owner=owner,
                    dest_address=owner,
                    source_chain=evm.id,
                    source_asset=f"{evm.id}/erc20:{evm.usdc}",
                    source_token=str(evm.usdc),
                    dest_chain=network.stellar.id,
                    dest_asset=network.stellar.usdc,
                    amount_in=1_000_000,
                    amount_out=9_999_000,
                )
                found.append((tokens[owner], quote))
        return found


def _now() -> UnixSeconds:
    return UnixSeconds(int(time.time()))
