"""Which client a request counts for."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def neighbourhood(address: str) -> str:
    """The address that counts: whoever has one of IPv6 has the other 2^64 of its network too."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # A Unix socket has none.
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
