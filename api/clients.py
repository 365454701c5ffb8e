"""Which client a request counts for."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def neighbourhood(address: str) -> str:
    """The address that counts: whoever has one of IPv6 has the other 2^64 of its network too."""
    try:
        parsed = ipaddress.ip_address(_without_port(address).partition("%")[0])
    except ValueError:
        # A Unix socket has none.
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _without_port(address: str) -> str:
    """Some proxies name the port too: each connection would then be somebody else."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, rest = address.partition(":")
    return address if ":" in rest else host
