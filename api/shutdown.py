"""Graceful shutdown: after SIGTERM a process serves requests until load balancers notice."""

from dataclasses import dataclass


@dataclass
class GracefulShutdown:
    """One process's. Set by a signal handler, read by all threads."""

    seconds: float = 0.0
    """From the signal to the end. Requests are answered meanwhile, and streams end one by one."""
    has_begun: bool = False
