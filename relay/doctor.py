"""Checks of the relay's keys and accounts for `isthmus doctor`, and of the key of webhooks.

A key signs one text that no chain takes for a transaction. Nothing else is signed, nothing is sent,
and no result names a secret.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from eth_utils.crypto import keccak
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.settings import Settings, operator_variable, problems_of, rpc_variable
from indexer.config.warehouse import open_engine
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError
from relay import slots
from relay.keys import (
    WrongSignature,
    evm_signature,
    stellar_address,
    stellar_signature,
)
from relay.limits import SpendLimits
from relay.nonces import AccountId
from relay.settings import (
    EvmAccount,
    RelayAccount,
    RelayVariables,
    address_of,
    load_accounts,
    load_webhook_poster,
)
from relay.webhooks.run import WebhookSender
from relay.webhooks.signing import encode_public_key
from warehouse_schema.configuration import explain, load_configuration
from warehouse_schema.identifiers import EvmAddress, NativeAmount, StellarAddress
from warehouse_schema.variables import is_chain_variable

REQUEST_SECONDS = 5.0
TEXT = b"isthmus doctor: this key signs."
EVM_DIGEST = keccak(b"\x19Ethereum Signed Message:\n" + str(len(TEXT)).encode() + TEXT)
"""EIP-191: no transaction begins with 0x19."""
STELLAR_DIGEST = hashlib.sha256(b"Stellar Signed Message:\n" + TEXT).digest()
"""SEP-53: a transaction's hash is of bytes that begin with the network's id."""
PUBLIC_KEY_VARIABLE = "ISTHMUS_WEBHOOK_PUBLIC_KEY"

READABLE = Check(
    "keys.readable",
    "Each file of a secret of the relay can be read.",
    "Write the secret there, with mode 0600 and the relay's user as its owner.",
)
SETTINGS = Check(
    "keys.settings",
    "Each key is one, is named once, and has a node; no key both sends and sponsors, and the key "
    "of webhooks signs nothing else.",
    "Correct the setting (docs/relay.md).",
)
SIGNS = Check(
    "keys.signs",
    "The key, or its service, signs a harmless text, and the signature is the key's own.",
    "Look at the key service: reachable, permitted to sign, and the key of the right curve "
    "(docs/relay.md).",
)
ACCOUNT = Check(
    "keys.account",
    "The account exists on Stellar, each channel's and sponsor's too.",
    "Create it by a payment of XLM to its address.",
)
BALANCE = Check(
    "keys.balance",
    "The account holds its day's budget and its floor, in the chain's native coin.",
    "Pay native coin to its address, or lower ISTHMUS_RELAY_BUDGET_<CHAIN>.",
)
NONCE = Check(
    "keys.nonce",
    "Every transaction of the account since the warehouse's first is one of the warehouse's.",
    "Stop the relay. If the warehouse was restored from a backup, run `isthmus relay reconcile`. "
    "Else the key is in other hands: replace it, and move the balance (docs/relay.md).",
)
DEPOSIT_OPERATOR = Check(
    "keys.deposit_operator",
    "The account that new deposit addresses name is one of this relay's, and is not draining.",
    "Set ISTHMUS_DEPOSIT_OPERATOR_<CHAIN> to the address of the relay's key there.",
)
WEBHOOK = Check(
    "keys.webhook",
    "ISTHMUS_WEBHOOK_PUBLIC_KEY, which the API publishes, belongs to the key that signs webhooks.",
    "Set ISTHMUS_WEBHOOK_PUBLIC_KEY to what `isthmus webhook-key` prints.",
)


def check_keys(context: DoctorContext) -> Iterator[CheckResult]:
    """Check every key of the relay and of webhooks that this configuration names."""
    settings, environment = context.settings, dict(load_configuration())
    for name, error in _unreadable(environment):
        fix = "Run the doctor as the relay's user." if isinstance(error, PermissionError) else ""
        yield READABLE.failed(name, f"{environment.pop(name)}: {error.strerror}", fix)
    accounts: Sequence[RelayAccount] = ()
    poster: WebhookSender | None = None
    problems: list[str] = []
    try:
        accounts = load_accounts(settings.network, environment)
        poster = load_webhook_poster(settings.network, environment)
    except ConfigurationError as error:
        problems = problems_of(error)
    except RetryableChainError as error:
        yield SIGNS.failed("key service", str(error))
    problems += [
        f"{chain} has a key and no node: set {rpc_variable(chain)}"
        for chain in dict.fromkeys(each.chain.id for each in accounts)
        if not settings.nodes.get(chain)
    ]
    for problem in problems:
        yield SETTINGS.failed("relay", explain(problem))
    if problems:
        return
    if not accounts and poster is None:
        yield SETTINGS.ok("relay", "no key is configured here")
    for account in accounts:
        yield from _check_account(context, account)
    yield from _check_operators(settings, accounts)
    if poster is not None:
        yield from _check_webhooks(poster, environment.get(PUBLIC_KEY_VARIABLE))


def _unreadable(environment: dict[str, str]) -> list[tuple[str, OSError]]:
    """Variables of secret files that cannot be read, and why."""
    found = []
    patterns = [name for name, _ in RelayVariables.names() if name.endswith("_FILE")]
    for name, path in environment.items():
        if path and any(is_chain_variable(pattern, name) for pattern in patterns):
            try:
                Path(path).read_bytes()
            except OSError as error:
                found.append((name, error))
    return found


def _check_account(context: DoctorContext, account: RelayAccount) -> Iterator[CheckResult]:
    try:
        address = address_of(account)
    except RetryableChainError as error:
        yield SIGNS.failed(account.chain.id, str(error))
        return
    subject = f"{account.chain.id} {address}"
    context.begin(SIGNS.id, subject)
    if isinstance(account, EvmAccount):
        yield _check_signature(partial(evm_signature, account.key, EVM_DIGEST), subject)
    else:
        yield _check_signature(partial(stellar_signature, account.key, STELLAR_DIGEST), subject)
    context.begin(BALANCE.id, subject)
    nodes = context.settings.nodes[account.chain.id]
    balance: NativeAmount
    try:
        if isinstance(account, EvmAccount):
            with closing(EvmAccountNodes(account.chain, nodes, timeout=REQUEST_SECONDS)) as evm:
                balance = evm.view(EvmAddress(address), []).balance
                next_number = evm.pending_nonce(EvmAddress(address))
        else:
            with closing(
                StellarAccountNodes(account.chain, nodes, timeout=REQUEST_SECONDS)
            ) as reader:
                funds = reader.funds(StellarAddress(address))
            if funds is None:
                yield ACCOUNT.failed(subject, "there is no such account")
                return
            yield ACCOUNT.ok(subject)
            balance, next_number = funds.spendable, funds.sequence + 1
    except (RetryableChainError, PermanentChainError) as error:
        yield BALANCE.failed(subject, f"not known: {error}", "See the findings of the nodes.")
        return
    unit = "wei" if isinstance(account, EvmAccount) else "stroops"
    yield _check_balance(account.limits, balance, unit, subject)
    # Read after the chain: a transaction that the relay sends now is in the warehouse before.
    yield _check_nonce(context.settings, AccountId(account.chain.id, address), next_number, subject)


def _check_signature(sign: Callable[[], object], subject: str) -> CheckResult:
    try:
        sign()
    except (RetryableChainError, WrongSignature, ConfigurationError) as error:
        return SIGNS.failed(subject, str(error))
    return SIGNS.ok(subject)


def _check_balance(limits: SpendLimits, balance: int, unit: str, subject: str) -> CheckResult:
    held = f"{balance} {unit}"
    for name, least in (("floor", limits.floor), ("day's budget", limits.budget)):
        if balance < least:
            return BALANCE.failed(subject, f"{held} on the account, its {name} is {least}")
    return BALANCE.ok(subject, held)


def _check_nonce(
    settings: Settings, account: AccountId, next_number: int, subject: str
) -> CheckResult:
    """`next_number` is the chain's: that after the last transaction, pending ones included."""
    engine = open_engine(settings, "relay", pool_size=1)
    try:
        own = _own_number(engine, account)
    except OperationalError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        fix = "Let the user of DATABASE_URL take the role isthmus_relay, or correct DATABASE_URL."
        return NONCE.failed(subject, f"relay.slots cannot be read: {reason}", fix)
    finally:
        engine.dispose()
    if own is None:
        return NONCE.ok(subject, f"next is {next_number}; this warehouse has sent nothing so far")
    if next_number > own:
        return NONCE.failed(
            subject,
            f"{next_number - own} transactions from number {own} on are not this warehouse's",
        )
    return NONCE.ok(subject, f"next is {next_number}, {own} is the first that was never reserved")


def _own_number(engine: Engine, account: AccountId) -> int | None:
    """None without a slot, also before the first migration, which `postgres.migrations` reports."""
    with engine.connect() as conn:
        if conn.scalar(text("SELECT to_regclass('relay.slots')")) is None:
            return None
        return slots.next_number(conn, account)


def _check_operators(settings: Settings, accounts: Sequence[RelayAccount]) -> Iterator[CheckResult]:
    for chain in settings.network.evm:
        own = [
            address_of(each)
            for each in accounts
            if each.chain.id == chain.id and not each.is_draining
        ]
        if chain.deposit_operator is None or not own:
            continue
        if chain.deposit_operator in own:
            yield DEPOSIT_OPERATOR.ok(chain.id, chain.deposit_operator)
        else:
            problem = f"deposits wait for {chain.deposit_operator}, the relay signs as {own[0]}"
            fix = f"Set {operator_variable(chain.id)} to {own[0]}."
            yield DEPOSIT_OPERATOR.failed(chain.id, problem, fix)


def _check_webhooks(poster: WebhookSender, published: str | None) -> Iterator[CheckResult]:
    try:
        subjects = [f"webhooks {stellar_address(key)}" for key in poster.keys]
        owned = [encode_public_key(key) for key in poster.keys]
    except RetryableChainError as error:
        yield SIGNS.failed("webhooks", str(error))
        return
    for key, each in zip(poster.keys, subjects, strict=True):
        yield _check_signature(partial(stellar_signature, key, STELLAR_DIGEST), each)
    subject, own = subjects[0], " and ".join(owned)
    if published is None:
        yield WEBHOOK.ok(subject, f"{own}; no API is configured here")
    elif published not in owned:
        yield WEBHOOK.failed(
            subject, f"the API publishes {published}, webhooks are signed by {own}"
        )
    else:
        yield WEBHOOK.ok(subject, published)


GROUP = CheckGroup(
    (READABLE, SETTINGS, SIGNS, ACCOUNT, BALANCE, NONCE, DEPOSIT_OPERATOR, WEBHOOK), check_keys
)
