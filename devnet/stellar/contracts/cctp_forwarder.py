"""CCTP's forwarder on Stellar: receives a mint and pays it to the strkey in the hook data.

Its event has 7 decimals.
"""

from dataclasses import dataclass

from stellar_sdk import Address as StellarAddress
from stellar_sdk import scval

from devnet.stellar.contracts.cctp_messages import (
    BODY_VERSION,
    MESSAGE_FORMAT,
    MESSAGE_VERSION,
    Body,
    Message,
    _int,
    raw_key,
)
from devnet.stellar.contracts.token import unmuxed
from devnet.stellar.host import CONSTRUCTOR, Contract, InvocationFailed, exported
from devnet.stellar.values import ADDRESS, I128, Address, Bytes, key, optional, struct

HOOK_HEADER = 32
HOOK_TOO_SHORT = 7300
WRONG_MINT_RECIPIENT = 7301
WRONG_RECIPIENT = 7302
FORWARD_MESSAGE_VERSION = 7304
FORWARD_BODY_VERSION = 7306
BAD_FORWARD_RECIPIENT = 7307
TOKEN_UNRESOLVED = 7312
WRONG_HOOK_VERSION = 7313
NOTHING_MINTED = 7314
_CONFIG = key("Config")


@dataclass(frozen=True)
class ForwarderConfig:
    """The two contracts that the forwarder works with."""

    messenger: Address
    transmitter: Address


class CctpForwarder(Contract):
    """Receives a mint for itself and passes it to the strkey in the hook data."""

    CODE = "cctp forwarder"

    @exported(CONSTRUCTOR)
    def construct(self, messenger: Address, transmitter: Address) -> None:
        """Start beside a messenger and its transmitter."""
        config = ForwarderConfig(messenger, transmitter)
        self.env.store(_CONFIG, struct(ForwarderConfig), config)

    @exported("mint_and_forward")
    def mint_and_forward(self, message: Bytes, attestation: Bytes) -> None:
        """Anyone may; a recipient that cannot take the token leaves the message unused."""
        config: ForwarderConfig = self.env.load(_CONFIG, struct(ForwarderConfig))
        try:
            parsed = Message.parse(message)
            body = Body.parse(parsed.body)
        except ValueError as error:
            raise self.env.fail(MESSAGE_FORMAT, str(error)) from error
        self._check(parsed, body, config)
        token = self._local_token(parsed, body, config)
        recipient = self._recipient(body.hook_data, token)
        amount = self._receive(config, token, message, attestation)
        own = scval.to_address(self.env.contract)
        self.env.call(token, "transfer", own, scval.to_address(recipient), scval.to_int128(amount))
        data = {
            "amount": scval.to_int128(amount),
            "forward_recipient": scval.to_address(recipient),
            "token": scval.to_address(token),
        }
        self.env.emit([scval.to_symbol("mint_and_forward")], scval.to_struct(data))

    def _check(self, message: Message, body: Body, config: ForwarderConfig) -> None:
        if message.version != MESSAGE_VERSION:
            raise self.env.fail(FORWARD_MESSAGE_VERSION, f"message version {message.version}")
        if body.version != BODY_VERSION:
            raise self.env.fail(FORWARD_BODY_VERSION, f"body version {body.version}")
        if message.recipient != raw_key(config.messenger):
            raise self.env.fail(WRONG_RECIPIENT, "the message is not for the messenger")
        if body.mint_recipient != raw_key(self.env.contract):
            raise self.env.fail(WRONG_MINT_RECIPIENT, "the mint is not for the forwarder")

    def _local_token(self, message: Message, body: Body, config: ForwarderConfig) -> str:
        answer = self.env.call(
            config.messenger,
            "get_local_token",
            scval.to_uint32(message.source_domain),
            scval.to_bytes(body.burn_token),
        )
        token = optional(ADDRESS).decode(answer)
        if token is None:
            raise self.env.fail(TOKEN_UNRESOLVED, "no local token for the burned one")
        return token

    def _recipient(self, hook: bytes, token: str) -> str:
        """Bytes 24 to 28 a version, 28 to 32 a length, then the strkey; the rest is free."""
        if len(hook) < HOOK_HEADER:
            raise self.env.fail(HOOK_TOO_SHORT, "the hook has no header")
        version, length = _int(hook[24:28]), _int(hook[28:32])
        if version:
            raise self.env.fail(WRONG_HOOK_VERSION, f"hook version {version}")
        if len(hook) < HOOK_HEADER + length:
            raise self.env.fail(HOOK_TOO_SHORT, "the hook ends before its strkey does")
        try:
            recipient = hook[HOOK_HEADER : HOOK_HEADER + length].decode("ascii")
            StellarAddress(recipient).to_xdr_sc_address()
        except ValueError as error:
            raise InvocationFailed(f"not a strkey: {error}", self.env.contract) from error
        if unmuxed(recipient)[0] in (token, self.env.contract):
            raise self.env.fail(BAD_FORWARD_RECIPIENT, f"{recipient} cannot be paid")
        return recipient

    def _receive(
        self, config: ForwarderConfig, token: str, message: bytes, attestation: bytes
    ) -> int:
        """Receive the message, and say how much of the token it brought."""
        own = scval.to_address(self.env.contract)
        before = I128.decode(self.env.call(token, "balance", own))
        self.env.call(
            config.transmitter,
            "receive_message",
            own,
            scval.to_bytes(message),
            scval.to_bytes(attestation),
        )
        minted = I128.decode(self.env.call(token, "balance", own)) - before
        if minted <= 0:
            raise self.env.fail(NOTHING_MINTED, "nothing was minted")
        return minted
