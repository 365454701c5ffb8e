"""CCTP's messenger on Stellar: burns USDC into messages, and mints USDC from them.

Functions take USDC with 7 decimals; messages and events carry 6.
"""

from dataclasses import dataclass

from stellar_sdk import StrKey, scval

from devnet.evm_messages import BurnMessage
from devnet.stellar.contracts.cctp_messages import BODY_VERSION, HEADER_BYTES, Body, raw_key
from devnet.stellar.contracts.cctp_pause import Pausable
from devnet.stellar.host import CONSTRUCTOR, exported
from devnet.stellar.values import (
    Address,
    Bool,
    Bytes,
    Bytes32,
    Int128,
    MaybeAddress,
    MaybeBytes32,
    MaybeInt128,
    Uint32,
    key,
    struct,
)

MIN_FINALITY = 500
DUST = 10
"""Stroops in one unit of the 6 decimals that messages carry."""
BURN_LIMIT = 10_000_000 * 10**7
"""Stroops of one burn: the limit that Circle documents."""
BURN_TOKEN_UNSUPPORTED = 6303
BURN_LIMIT_EXCEEDED = 6304
ZERO_AMOUNT = 7102
ZERO_RECIPIENT = 7103
MAX_FEE_TOO_HIGH = 7104
UNKNOWN_DOMAIN = 7106
EMPTY_HOOK = 7107
WRONG_BODY_VERSION = 7109
WRONG_REMOTE = 7110
FEE_TOO_HIGH = 7113
FEE_ABOVE_MAX = 7114
MINT_TOKEN_UNSUPPORTED = 7115
FINALITY_TOO_LOW = 7116
MESSAGE_EXPIRED = 7117
BELOW_ONE_UNIT = 7118
_CONFIG = key("Config")


@dataclass(frozen=True)
class MessengerConfig:
    """The one remote domain of the devnet, and the token on both sides."""

    fee_recipient: Address
    remote_domain: Uint32
    remote_messenger: Bytes32
    remote_token: Bytes32
    token: Address
    transmitter: Address


@dataclass(frozen=True)
class _Burn:
    """The arguments of a burn, already in the messages' 6 decimals."""

    caller: str
    amount: int
    destination_domain: int
    mint_recipient: bytes
    destination_caller: bytes
    max_fee: int
    min_finality: int
    hook_data: bytes


class TokenMessengerMinter(Pausable):
    """Burns USDC into messages, and mints USDC from them."""

    CODE = "token messenger minter"

    @exported(CONSTRUCTOR)
    def construct(
        self,
        transmitter: Address,
        token: Address,
        fee_recipient: Address,
        remote_domain: Uint32,
        remote_messenger: Bytes32,
        remote_token: Bytes32,
    ) -> None:
        """Start linked to one remote domain."""
        config = MessengerConfig(
            fee_recipient, remote_domain, remote_messenger, remote_token, token, transmitter
        )
        self.env.store(_CONFIG, struct(MessengerConfig), config)

    @exported("deposit_for_burn")
    def deposit_for_burn(
        self,
        caller: Address,
        amount: Int128,
        destination_domain: Uint32,
        mint_recipient: Bytes32,
        burn_token: Address,
        destination_caller: Bytes32,
        max_fee: Int128,
        min_finality_threshold: Uint32,
    ) -> None:
        """Burn within an allowance; the seventh decimal stays with the caller."""
        burn = _Burn(
            caller,
            amount,
            destination_domain,
            mint_recipient,
            destination_caller,
            max_fee,
            min_finality_threshold,
            b"",
        )
        self._burn(burn, burn_token)

    @exported("deposit_for_burn_with_hook")
    def deposit_for_burn_with_hook(
        self,
        caller: Address,
        amount: Int128,
        destination_domain: Uint32,
        mint_recipient: Bytes32,
        burn_token: Address,
        destination_caller: Bytes32,
        max_fee: Int128,
        min_finality_threshold: Uint32,
        hook_data: Bytes,
    ) -> None:
        """The same, with bytes for the destination to act on or to ignore."""
        if not hook_data:
            raise self.env.fail(EMPTY_HOOK, "empty hook data")
        burn = _Burn(
            caller,
            amount,
            destination_domain,
            mint_recipient,
            destination_caller,
            max_fee,
            min_finality_threshold,
            hook_data,
        )
        self._burn(burn, burn_token)

    @exported("handle_recv_finalized_message")
    def handle_recv_finalized_message(
        self,
        source_domain: Uint32,
        sender: Bytes32,
        finality_threshold_executed: Uint32,
        message_body: Bytes,
    ) -> Bool:
        """Mint for a burn that is final on its chain (transmitter only)."""
        return self._mint(source_domain, sender, message_body)

    @exported("handle_recv_unfinalized_message")
    def handle_recv_unfinalized_message(
        self,
        source_domain: Uint32,
        sender: Bytes32,
        finality_threshold_executed: Uint32,
        message_body: Bytes,
    ) -> Bool:
        """Mint for a burn that may still be reorganised away (transmitter only)."""
        if finality_threshold_executed < MIN_FINALITY:
            raise self.env.fail(FINALITY_TOO_LOW, f"finality {finality_threshold_executed}")
        return self._mint(source_domain, sender, message_body)

    @exported("get_local_token")
    def get_local_token(self, remote_domain: Uint32, remote_token: Bytes32) -> MaybeAddress:
        """The token that is minted for a remote token, if any."""
        config = self._config()
        linked = (config.remote_domain, config.remote_token) == (remote_domain, remote_token)
        return config.token if linked else None

    @exported("get_remote_token_messenger")
    def get_remote_token_messenger(self, domain: Uint32) -> MaybeBytes32:
        """The messenger that is trusted on a domain, if any."""
        config = self._config()
        return config.remote_messenger if domain == config.remote_domain else None

    @exported("get_max_burn_amount_per_message")
    def get_max_burn_amount_per_message(self, local_token: Address) -> MaybeInt128:
        """Limit of one burn, stroops; none for a token that is not burned."""
        return BURN_LIMIT if local_token == self._config().token else None

    @exported("get_min_fee")
    def get_min_fee(self, burn_token: Address) -> Int128:
        """Least fee, in 1/10,000,000 of the amount: the devnet sets none."""
        return 0

    @exported("is_denylisted")
    def is_denylisted(self, account: Address) -> Bool:
        """Is the account refused?"""
        return False

    def _config(self) -> MessengerConfig:
        config: MessengerConfig = self.env.load(_CONFIG, struct(MessengerConfig))
        return config

    def _burn(self, burn: _Burn, token: str) -> None:
        self.refuse_if_paused()
        self.env.require_auth(burn.caller)
        config = self._config()
        self._check_burn(burn, token, config)
        amount, max_fee = burn.amount // DUST, burn.max_fee // DUST
        self._take(config.token, burn.caller, amount * DUST)
        message = BurnMessage(
            source_domain=0,
            destination_domain=burn.destination_domain,
            sender=raw_key(self.env.contract),
            recipient=config.remote_messenger,
            burn_token=raw_key(token),
            mint_recipient=burn.mint_recipient,
            amount=amount,
            message_sender=raw_key(burn.caller),
            destination_caller=burn.destination_caller,
            max_fee=max_fee,
            min_finality=burn.min_finality,
            hook_data=burn.hook_data,
        )
        self.env.call(
            config.transmitter,
            "send_message",
            scval.to_address(self.env.contract),
            scval.to_uint32(burn.destination_domain),
            scval.to_bytes(config.remote_messenger),
            scval.to_bytes(burn.destination_caller),
            scval.to_uint32(burn.min_finality),
            scval.to_bytes(message.encode()[HEADER_BYTES:]),
        )
        self._emit_burn(burn, token, amount, max_fee, config)

    def _check_burn(self, burn: _Burn, token: str, config: MessengerConfig) -> None:
        if burn.amount <= 0:
            raise self.env.fail(ZERO_AMOUNT, "amount must be positive")
        if burn.mint_recipient == bytes(32):
            raise self.env.fail(ZERO_RECIPIENT, "zero recipient")
        if burn.amount < DUST:
            raise self.env.fail(BELOW_ONE_UNIT, "less than one unit of 6 decimals")
        if not 0 <= burn.max_fee // DUST < burn.amount // DUST:
            raise self.env.fail(MAX_FEE_TOO_HIGH, "max fee must be below the amount")
        if burn.destination_domain != config.remote_domain:
            raise self.env.fail(UNKNOWN_DOMAIN, f"domain {burn.destination_domain}")
        if token != config.token:
            raise self.env.fail(BURN_TOKEN_UNSUPPORTED, f"{token} cannot be burned")
        if burn.amount > BURN_LIMIT:
            raise self.env.fail(BURN_LIMIT_EXCEEDED, f"more than {BURN_LIMIT} at once")

    def _take(self, token: str, caller: str, amount: int) -> None:
        own = scval.to_address(self.env.contract)
        self.env.call(
            token, "transfer_from", own, scval.to_address(caller), own, scval.to_int128(amount)
        )
        self.env.call(token, "burn", own, scval.to_int128(amount))

    def _emit_burn(
        self, burn: _Burn, token: str, amount: int, max_fee: int, config: MessengerConfig
    ) -> None:
        topics = [
            scval.to_symbol("deposit_for_burn"),
            scval.to_address(token),
            scval.to_address(burn.caller),
            scval.to_uint32(burn.min_finality),
        ]
        data = {
            "amount": scval.to_int128(amount),
            "destination_caller": scval.to_bytes(burn.destination_caller),
            "destination_domain": scval.to_uint32(burn.destination_domain),
            "destination_token_messenger": scval.to_bytes(config.remote_messenger),
            "hook_data": scval.to_bytes(burn.hook_data),
            "max_fee": scval.to_int128(max_fee),
            "mint_recipient": scval.to_bytes(burn.mint_recipient),
        }
        self.env.emit(topics, scval.to_struct(data))

    def _mint(self, source_domain: int, sender: bytes, raw: bytes) -> bool:
        self.refuse_if_paused()
        config = self._config()
        self.env.require_auth(config.transmitter)
        if (source_domain, sender) != (config.remote_domain, config.remote_messenger):
            raise self.env.fail(WRONG_REMOTE, "not a messenger that is trusted")
        body = Body.parse(raw)
        self._check_mint(source_domain, body, config)
        recipient = StrKey.encode_contract(body.mint_recipient)
        net = body.amount - body.fee_executed
        self._mint_to(config.token, recipient, net * DUST)
        if body.fee_executed:
            self._mint_to(config.token, config.fee_recipient, body.fee_executed * DUST)
        topics = [
            scval.to_symbol("mint_and_withdraw"),
            scval.to_address(recipient),
            scval.to_address(config.token),
        ]
        data = {
            "amount": scval.to_int128(net),
            "fee_collected": scval.to_int128(body.fee_executed),
        }
        self.env.emit(topics, scval.to_struct(data))
        return True

    def _check_mint(self, source_domain: int, body: Body, config: MessengerConfig) -> None:
        if body.version != BODY_VERSION:
            raise self.env.fail(WRONG_BODY_VERSION, f"body version {body.version}")
        if body.expiration and body.expiration <= self.env.ledger.sequence:
            raise self.env.fail(MESSAGE_EXPIRED, "the message has expired")
        if body.fee_executed and body.fee_executed >= body.amount:
            raise self.env.fail(FEE_TOO_HIGH, "the fee takes the whole amount")
        if body.fee_executed > body.max_fee:
            raise self.env.fail(FEE_ABOVE_MAX, "the fee is above what was allowed")
        if (source_domain, body.burn_token) != (config.remote_domain, config.remote_token):
            raise self.env.fail(MINT_TOKEN_UNSUPPORTED, "not the token that is linked")

    def _mint_to(self, token: str, receiver: str, amount: int) -> None:
        self.env.call(token, "mint", scval.to_address(receiver), scval.to_int128(amount))
