"""The Stellar Asset Contract: the contract face of a classic asset (CAP-46-6, CAP-67, SEP-41).

A `G…` holder's balance is its account or trustline, a `C…` holder's is contract data. Amounts are
i128 stroops. Error codes are the built-in contract's own.
"""

from dataclasses import dataclass, replace

from stellar_sdk import Asset, MuxedAccount, StrKey, scval, xdr

from devnet.stellar import asset_events
from devnet.stellar.entries import MAX_INT64
from devnet.stellar.host import CONSTRUCTOR, Contract, exported
from devnet.stellar.protocol30 import MuxedContract
from devnet.stellar.values import (
    ADDRESS,
    STRING,
    Address,
    Bool,
    Int128,
    MuxedAddress,
    String,
    Uint32,
    key,
    struct,
)

NOT_SUPPORTED = 2
ACCOUNT_MISSING = 6
NEGATIVE_AMOUNT = 8
ALLOWANCE = 9
BALANCE = 10
DEAUTHORIZED = 11
OVERFLOW = 12
TRUSTLINE_MISSING = 13

_ADMIN = key("Admin")
_NAME = key("Name")


@dataclass(frozen=True)
class Balance:
    """A contract's balance."""

    amount: Int128
    authorized: Bool
    clawback: Bool


@dataclass(frozen=True)
class Spender:
    """Key of an allowance."""

    spender: Address
    # `from` is a keyword in Python: the field's name on the ledger is set in `_allowance_key`.
    owner: Address


@dataclass(frozen=True)
class Allowance:
    """A spender's allowance, until a ledger sequence (inclusive)."""

    amount: Int128
    live_until_ledger: Uint32


def _balance_key(holder: str) -> xdr.SCVal:
    return key("Balance", scval.to_address(holder))


def _allowance_key(allowed: Spender) -> xdr.SCVal:
    fields = {
        "from": scval.to_address(allowed.owner),
        "spender": scval.to_address(allowed.spender),
    }
    return key("Allowance", scval.to_struct(fields))


def unmuxed(receiver: str) -> tuple[str, xdr.SCVal | None]:
    """The holder behind an address that may be muxed, and the customer id if it is."""
    if receiver.startswith("W"):
        contract = MuxedContract.from_strkey(receiver)
        return contract.contract_strkey, scval.to_uint64(contract.muxed_id)
    if not StrKey.is_valid_med25519_public_key(receiver):
        return receiver, None
    muxed = MuxedAccount.from_account(receiver)
    assert muxed.account_muxed_id is not None
    return muxed.account_id, scval.to_uint64(muxed.account_muxed_id)


class Token(Contract):
    """The token contract of one asset."""

    CODE = "stellar asset"

    @exported(CONSTRUCTOR)
    def construct(self, name: String) -> None:
        """Bind to an asset; its issuer is the first admin."""
        asset = _asset(name)
        self.env.store(_NAME, STRING, name)
        if asset.issuer is not None:
            self.env.store(_ADMIN, ADDRESS, asset.issuer)

    @exported("transfer")
    def transfer(self, sender: Address, receiver: MuxedAddress, amount: Int128) -> None:
        """Move the sender's own balance; the receiver may be muxed."""
        self.env.require_auth(sender)
        self._move(sender, receiver, amount)

    @exported("transfer_from")
    def transfer_from(
        self, spender: Address, owner: Address, receiver: Address, amount: Int128
    ) -> None:
        """Move another's balance, within its allowance."""
        self.env.require_auth(spender)
        self._spend_allowance(Spender(spender, owner), amount)
        self._move(owner, receiver, amount)

    @exported("approve")
    def approve(
        self, owner: Address, spender: Address, amount: Int128, live_until_ledger: Uint32
    ) -> None:
        """Set an allowance; the last ledger in which it holds is inclusive."""
        self.env.require_auth(owner)
        self._check_amount(amount)
        if amount and live_until_ledger < self.env.ledger.sequence:
            raise self.env.fail(ALLOWANCE, "the allowance would have expired already")
        self._put_allowance(Spender(spender, owner), Allowance(amount, live_until_ledger))
        topics = [
            scval.to_symbol("approve"),
            scval.to_address(owner),
            scval.to_address(spender),
            scval.to_string(self._name()),
        ]
        data = scval.to_vec([scval.to_int128(amount), scval.to_uint32(live_until_ledger)])
        self.env.emit(topics, data)

    @exported("allowance")
    def allowance(self, owner: Address, spender: Address) -> Int128:
        """The rest of an allowance; 0 once it has expired."""
        return self._allowance(Spender(spender, owner)).amount

    @exported("mint")
    def mint(self, receiver: MuxedAddress, amount: Int128) -> None:
        """Create balance; the admin alone may."""
        self.env.require_auth(self.admin())
        self._check_amount(amount)
        holder, customer = unmuxed(receiver)
        self._receive(holder, amount)
        self.env.emit_raw(asset_events.mint(self._asset(), holder, amount, customer))

    @exported("burn")
    def burn(self, owner: Address, amount: Int128) -> None:
        """End the owner's own balance."""
        self.env.require_auth(owner)
        self._burn(owner, amount)

    @exported("burn_from")
    def burn_from(self, spender: Address, owner: Address, amount: Int128) -> None:
        """End another's balance, within its allowance."""
        self.env.require_auth(spender)
        self._spend_allowance(Spender(spender, owner), amount)
        self._burn(owner, amount)

    @exported("set_admin")
    def set_admin(self, new_admin: Address) -> None:
        """Hand the right to mint to another account or contract."""
        old = self.admin()
        self.env.require_auth(old)
        self.env.store(_ADMIN, ADDRESS, new_admin)
        topics = [
            scval.to_symbol("set_admin"),
            scval.to_address(old),
            scval.to_string(self._name()),
        ]
        self.env.emit(topics, scval.to_address(new_admin))

    @exported("admin")
    def admin(self) -> Address:
        """The minter."""
        admin: str | None = self.env.load(_ADMIN, ADDRESS)
        if admin is None:
            raise self.env.fail(NOT_SUPPORTED, "the native asset has no admin")
        return admin

    @exported("balance")
    def balance(self, holder: Address) -> Int128:
        """A holder's balance; for the native asset, the spendable one."""
        asset, layer = self._asset(), self.env.host.layer
        if StrKey.is_valid_contract(holder):
            return self._contract_balance(holder).amount
        if holder == asset.issuer:
            return MAX_INT64
        if asset.is_native():
            account = layer.account(holder)
            if account is None:
                raise self.env.fail(ACCOUNT_MISSING, f"no account {holder}")
            return account.spendable
        line = layer.trustline(holder, asset)
        if line is None:
            raise self.env.fail(TRUSTLINE_MISSING, f"{holder} has no trustline")
        return line.balance

    @exported("decimals")
    def decimals(self) -> Uint32:
        """Always 7."""
        return 7

    @exported("name")
    def name(self) -> String:
        """The SEP-11 name of the asset."""
        return self._name()

    @exported("symbol")
    def symbol(self) -> String:
        """The asset's code."""
        return self._asset().code if not self._asset().is_native() else "native"

    def _name(self) -> str:
        name: str = self.env.load(_NAME, STRING)
        return name

    def _asset(self) -> Asset:
        return _asset(self._name())

    def _check_amount(self, amount: int) -> None:
        if amount < 0:
            raise self.env.fail(NEGATIVE_AMOUNT, "negative amount")

    def _move(self, sender: str, receiver: str, amount: int) -> None:
        self._check_amount(amount)
        holder, customer = unmuxed(receiver)
        self._spend(sender, amount)
        self._receive(holder, amount)
        self.env.emit_raw(asset_events.movement(self._asset(), sender, holder, amount, customer))

    def _burn(self, owner: str, amount: int) -> None:
        self._check_amount(amount)
        if self._asset().is_native():
            raise self.env.fail(NOT_SUPPORTED, "the native asset cannot be burned")
        self._spend(owner, amount)
        self.env.emit_raw(asset_events.burn(self._asset(), owner, amount))

    def _spend(self, owner: str, amount: int) -> None:
        asset = self._asset()
        if StrKey.is_valid_contract(owner):
            held = self._contract_balance(owner)
            if held.amount < amount:
                raise self.env.fail(BALANCE, f"{owner} holds {held.amount} of {amount}")
            self._put_contract_balance(owner, replace(held, amount=held.amount - amount))
        elif asset.is_native():
            self._spend_native(owner, amount)
        elif owner != asset.issuer:
            self._change_trustline(owner, -amount)

    def _receive(self, receiver: str, amount: int) -> None:
        asset, layer = self._asset(), self.env.host.layer
        if StrKey.is_valid_contract(receiver):
            held = self._contract_balance(receiver)
            self._put_contract_balance(receiver, replace(held, amount=held.amount + amount))
        elif asset.is_native():
            account = layer.account(receiver)
            if account is None:
                raise self.env.fail(ACCOUNT_MISSING, f"no account {receiver}")
            if account.balance + amount > MAX_INT64:
                raise self.env.fail(BALANCE, f"{receiver} cannot hold so much")
            layer.pay_account(receiver, amount)
        elif receiver != asset.issuer:
            self._change_trustline(receiver, amount)

    def _spend_native(self, owner: str, amount: int) -> None:
        account = self.env.host.layer.account(owner)
        if account is None:
            raise self.env.fail(ACCOUNT_MISSING, f"no account {owner}")
        if account.spendable < amount:
            raise self.env.fail(BALANCE, f"{owner} can spend {account.spendable} of {amount}")
        self.env.host.layer.pay_account(owner, -amount)

    def _change_trustline(self, holder: str, amount: int) -> None:
        layer = self.env.host.layer
        line = layer.trustline(holder, self._asset())
        if line is None:
            raise self.env.fail(TRUSTLINE_MISSING, f"{holder} has no trustline")
        if not line.authorized:
            raise self.env.fail(DEAUTHORIZED, f"the trustline of {holder} is not authorised")
        if not 0 <= line.balance + amount <= line.limit:
            raise self.env.fail(BALANCE, f"{holder}: {line.balance} cannot change by {amount}")
        layer.put_trustline(replace(line, balance=line.balance + amount))

    def _contract_balance(self, holder: str) -> Balance:
        stored: Balance | None = self.env.load(_balance_key(holder), struct(Balance))
        return stored or Balance(0, True, False)

    def _put_contract_balance(self, holder: str, balance: Balance) -> None:
        if balance.amount >= 2**127:
            raise self.env.fail(OVERFLOW, f"{holder} cannot hold so much")
        self.env.store(_balance_key(holder), struct(Balance), balance)

    def _allowance(self, allowed: Spender) -> Allowance:
        value = self.env.host.layer.contract_data(
            self.env.contract, _allowance_key(allowed), temporary=True
        )
        none = Allowance(0, 0)
        stored = none if value is None else struct(Allowance).decode(value)
        return stored if stored.live_until_ledger >= self.env.ledger.sequence else none

    def _put_allowance(self, allowed: Spender, allowance: Allowance) -> None:
        self.env.host.layer.put_contract_data(
            self.env.contract,
            _allowance_key(allowed),
            struct(Allowance).encode(allowance),
            temporary=True,
        )

    def _spend_allowance(self, allowed: Spender, amount: int) -> None:
        self._check_amount(amount)
        allowance = self._allowance(allowed)
        if allowance.amount < amount:
            raise self.env.fail(ALLOWANCE, f"allowed {allowance.amount} of {amount}")
        self._put_allowance(allowed, replace(allowance, amount=allowance.amount - amount))


def _asset(name: str) -> Asset:
    if name == "native":
        return Asset.native()
    code, issuer = name.split(":")
    return Asset(code, issuer)
