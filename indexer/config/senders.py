"""Which relays and webhook senders a configuration names, by the names of its variables.

For processes without the keys: no secret is read.
"""

from collections.abc import Mapping

from indexer.config.networks import Network
from indexer.config.networks.chains import variable_suffix
from warehouse_schema.configuration import is_given
from warehouse_schema.known_variables import CHAIN

RELAY_VARIABLES = ("ISTHMUS_RELAY_KEY_<CHAIN>", "ISTHMUS_RELAY_KMS_<CHAIN>")
SPONSOR_VARIABLES = ("ISTHMUS_RELAY_SPONSOR_<CHAIN>", "ISTHMUS_RELAY_SPONSOR_KMS_<CHAIN>")
WEBHOOK_VARIABLES = ("ISTHMUS_WEBHOOK_KEY", "ISTHMUS_WEBHOOK_KMS")
SERVER_VARIABLE = "ISTHMUS_RELAY_SERVER_HOST"
"""Set where there is a relay's code server, also without any key. Its port alone is no sign of
one: two installations on a machine differ in all ports."""
RELAY, SPONSOR, WEBHOOKS, SERVER = "relay", "sponsor", "webhooks", "relay server"


def named_senders(network: Network, variables: Mapping[str, str]) -> dict[str, str]:
    """Sender → the first variable that names it.

    Senders are `relay <chain>`, `sponsor <chain>` and `webhooks`; or `relay server` where the
    address of the relay's code server is all that is known.
    """
    names = [
        (f"{sender} {chain.id}", pattern.replace(CHAIN, variable_suffix(chain.id)))
        for sender, patterns in ((RELAY, RELAY_VARIABLES), (SPONSOR, SPONSOR_VARIABLES))
        for chain in network.chains
        for pattern in patterns
    ]
    names += [(WEBHOOKS, name) for name in WEBHOOK_VARIABLES]
    found: dict[str, str] = {}
    for sender, name in names:
        if is_given(variables, name):
            found.setdefault(sender, name)
    if not found and is_given(variables, SERVER_VARIABLE):
        found[SERVER] = SERVER_VARIABLE
    return found
