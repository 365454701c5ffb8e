"""Pausing, shared by CCTP's contracts on Stellar.

The view `paused` and error 1000 are those of Circle's stellar-cctp; on the local chain any account
may pause.
"""

from devnet.stellar.host import Contract, exported
from devnet.stellar.values import BOOL, Bool, key

PAUSED = 1000
_PAUSED = key("Paused")


class Pausable(Contract):
    """A contract that refuses messages while it is paused."""

    CODE = "pausable"

    @exported("paused")
    def paused(self) -> Bool:
        """Is the contract paused?"""
        return self.env.load(_PAUSED, BOOL) or False

    @exported("pause")
    def pause(self) -> None:
        """Refuse messages from now on."""
        self.env.store(_PAUSED, BOOL, True)

    @exported("unpause")
    def unpause(self) -> None:
        """Take messages again."""
        self.env.store(_PAUSED, BOOL, False)

    def refuse_if_paused(self) -> None:
        """Fail while the contract is paused."""
        if self.paused():
            raise self.env.fail(PAUSED, "paused")
