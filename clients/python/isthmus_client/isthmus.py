"""The client: a method for each operation of the OpenAPI document."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from isthmus_client.amounts import to_base_units
from isthmus_client.contracts import Bridges
from isthmus_client.errors import ActionNotTrusted, SignInNeeded, Unavailable
from isthmus_client.http import Http, Timeouts, read
from isthmus_client.login import Login
from isthmus_client.models import (
    Actions,
    DepthSummary,
    Direction,
    EvmCalls,
    Offer,
    Order,
    PriceHistory,
    Provider,
    ProviderActivity,
    Quote,
    Readiness,
    Revoked,
    Route,
    SendToAddress,
    Session,
    Status,
    StellarTrustline,
    StellarTx,
    Transfer,
    TransferPage,
)
from isthmus_client.onboarding import check_onboarding
from isthmus_client.stream import Moment, follow
from isthmus_client.transfer_stream import TransferNews, follow_transfers
from isthmus_client.verify import Deposit, check_calls
from isthmus_client.verify_address import Custody, check_address
from isthmus_client.verify_stellar import Outgoing, check_transaction
from isthmus_client.webhooks import Webhooks

T = TypeVar("T")

_STATUS = TypeAdapter(Status)
_ROUTES = TypeAdapter(dict[str, tuple[Route, ...]])
_OFFERS = TypeAdapter(tuple[Offer, ...])
_SUMMARY = TypeAdapter(DepthSummary)
_HISTORY = TypeAdapter(PriceHistory)
_PROVIDER = TypeAdapter(Provider)
_ACTIVITY = TypeAdapter(ProviderActivity)
_ORDER = TypeAdapter(Order)
_ORDERS = TypeAdapter(tuple[Order, ...])
_READINESS = TypeAdapter(Readiness)
_QUOTE = TypeAdapter(Quote)
_SESSION = TypeAdapter(Session)
_REVOKED = TypeAdapter(Revoked)
_TRANSFER = TypeAdapter(Transfer)
_PAGE = TypeAdapter(TransferPage)
_ACTIONS = TypeAdapter(Actions)
_BOOK = "/api/v1"
_TRANSFERS = "/v1/transfers"


class Isthmus:
    """The API at `base_url`. Keeps its connections; close it, or use it in a `with`.

    The owner is authenticated by a `login` (SEP-10), which is renewed when the API refuses its
    token, or by a `token` function (such as the identity provider's), called for each request.
    """

    def __init__(
        self,
        base_url: str,
        *,
        login: Login | None = None,
        token: Callable[[], str] | None = None,
        timeouts: Timeouts | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        timeouts = timeouts or Timeouts()
        timeout = httpx.Timeout(timeouts.response, connect=timeouts.connect)
        self._client = httpx.Client(
            base_url=base_url, timeout=timeout, transport=transport, follow_redirects=False
        )
        self._http = Http(self._client, timeouts, sleep)
        self._login = login
        self._token = token
        self._signed_in: str | None = None
        self._sleep = sleep
        self.webhooks = Webhooks(self._ask_as_owner)
        """URLs that receive changes of the owner's transfers."""

    def __enter__(self) -> "Isthmus":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # The order book

    def offers(
        self,
        *,
        rail: str | None = None,
        currency: str | None = None,
        direction: Direction | None = None,
        min_amount: Decimal | int | str | None = None,
        max_amount: Decimal | int | str | None = None,
    ) -> tuple[Offer, ...]:
        """Offers that can be taken now and match; the best rate for the taker first."""
        query = {"rail": rail, "currency": currency, "direction": direction}
        sizes = {"minAmount": _text(min_amount), "maxAmount": _text(max_amount)}
        return self._get(_OFFERS, f"{_BOOK}/orderbook", **query, **sizes)

    def summary(self) -> DepthSummary:
        """Depth of the book."""
        return self._get(_SUMMARY, f"{_BOOK}/orderbook/summary")

    def provider(self, address: str) -> Provider:
        """A liquidity provider. Raises `NotFound`."""
        return self._get(_PROVIDER, f"{_BOOK}/providers/{_segment(address)}")

    def provider_activity(self, address: str) -> ProviderActivity:
        """A provider's volume, fill rate and median time of late. Raises `NotFound`."""
        return self._get(_ACTIVITY, f"{_BOOK}/providers/{_segment(address)}/activity")

    def price_history(self, currency: str) -> PriceHistory:
        """What a currency's orders settled at in the last 30 days."""
        return self._get(_HISTORY, f"{_BOOK}/orderbook/history", currency=currency)

    def order(self, intent_id: str) -> Order:
        """An order (intent). Raises `NotFound`."""
        return self._get(_ORDER, f"{_BOOK}/intents/{_segment(intent_id)}")

    def orders(
        self,
        *,
        provider: str | None = None,
        limit: int | None = None,
        rail: str | None = None,
        currency: str | None = None,
        direction: Direction | None = None,
    ) -> tuple[Order, ...]:
        """The newest orders; rail, currency and direction select among the newest 1,000."""
        query = {"rail": rail, "currency": currency, "direction": direction}
        return self._get(_ORDERS, f"{_BOOK}/intents", provider=provider, limit=limit, **query)

    def follow(
        self,
        *,
        rail: str | None = None,
        currency: str | None = None,
        direction: Direction | None = None,
        provider: str | None = None,
        markers: bool = False,
        since: Moment | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Moment]:
        """The exact book after each ledger that changes it (`markers`: after each ledger).

        Ends after `should_stop` returns true: within a second while connected, else after the pause
        before the next connection.
        """
        query = {"rail": rail, "currency": currency, "direction": direction, "provider": provider}
        flag = {"markers": 1} if markers else {}
        return follow(
            self._stream_url(),
            {**query, **flag},
            since=since,
            sleep=self._sleep,
            should_stop=should_stop,
        )

    def follow_transfers(
        self, *, after: int | None = None, should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[TransferNews]:
        """Transfers under way, or changed after the number `after`, and then each change.

        Ends after `should_stop` returns true: within a second while connected, else after the pause
        before the next connection. Signs in again when a token expires. Raises `SignInNeeded`.
        """
        return follow_transfers(
            self._stream_url(),
            self._stream_token,
            after=after,
            sleep=self._sleep,
            should_stop=should_stop,
        )

    def _stream_url(self) -> str:
        url = self._client.base_url.join(f"{_BOOK}/stream")
        return str(url.copy_with(scheme="wss" if url.scheme == "https" else "ws"))

    def _stream_token(self, is_refused: bool) -> str:
        if self._token is not None:
            return self._token()
        if self._signed_in is None or is_refused:
            return self.sign_in()
        return self._signed_in

    # The service

    def routes(self) -> tuple[Route, ...]:
        """The routes of transfers."""
        return self._get(_ROUTES, "/v1/routes")["routes"]

    def status(self) -> Status:
        """Whether transfers are moving, and the last reconciliation: whether the money adds up."""
        return self._get(_STATUS, "/v1/status")

    def is_alive(self) -> bool:
        """True, or raises `ClientError`."""
        self._http.ask("GET", "/healthz")
        return True

    def readiness(self) -> Readiness:
        """Whether the process accepts traffic, and why not. Never retried."""
        try:
            answer = self._http.once("GET", "/readyz")
        except Unavailable as refused:
            return Readiness.model_validate(refused.body)
        return read(_READINESS, answer)

    def stellar_toml(self) -> str:
        """The service's SEP-1 file."""
        return self._http.ask("GET", "/.well-known/stellar.toml").text

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return self._get(_DOCUMENT, "/openapi.json")

    def asyncapi(self) -> dict[str, Any]:
        """The AsyncAPI document of the stream."""
        return self._get(_DOCUMENT, "/asyncapi.json")

    # Transfers

    def quote(
        self,
        route: str,
        amount: Decimal,
        *,
        source_chain: str,
        source_address: str,
        dest_address: str,
        dest_chain: str | None = None,
        funding_mode: str | None = None,
    ) -> Quote:
        """The price of a transfer, fixed until `expires_at`; `amount` is whole tokens.

        Raises `Invalid`, `Forbidden` for another owner's account, `Unavailable`; `TypeError` and
        `ValueError` for an amount that is no whole number of base units (`to_base_units`).
        """
        request = {
            "route": route,
            "amount_in": str(to_base_units(amount, source_chain)),
            "source_chain": source_chain,
            "source_address": source_address,
            "dest_address": dest_address,
            "dest_chain": dest_chain,
            "funding_mode": funding_mode,
        }
        body = {name: value for name, value in request.items() if value is not None}
        return read(_QUOTE, self._ask_as_owner("POST", "/v1/quotes", body=body))

    def start_transfer(self, quote_id: str, *, key: str) -> Transfer:
        """Start a transfer of a quote. `key` is its idempotency key, such as `str(uuid4())`.

        Store the key before the call: after `NotReached` retry with the same key, which starts at
        most one transfer. Raises `NotFound`, `Conflict` (the quote is used or has expired),
        `Invalid` (over a limit), `Unavailable`.
        """
        body = {"quote_id": quote_id}
        return read(_TRANSFER, self._ask_as_owner("POST", _TRANSFERS, body=body, key=key))

    def transfer(self, transfer_id: str) -> Transfer:
        """A transfer. Raises `NotFound`."""
        return read(_TRANSFER, self._ask_as_owner("GET", f"{_TRANSFERS}/{_segment(transfer_id)}"))

    def transfers(
        self, *, before: datetime | None = None, limit: int | None = None
    ) -> TransferPage:
        """A page of your transfers, newest first; `before` is `next_before` of the page before."""
        query = {"before": None if before is None else before.isoformat(), "limit": limit}
        return read(_PAGE, self._ask_as_owner("GET", _TRANSFERS, query=query))

    def cancel_transfer(self, transfer_id: str) -> Transfer:
        """Cancel a transfer. Raises `NotFound`, `Conflict` once it is too late."""
        path = f"{_TRANSFERS}/{_segment(transfer_id)}/cancel"
        return read(_TRANSFER, self._ask_as_owner("POST", path))

    def action(self, wanted: Deposit | Outgoing, bridges: Bridges) -> Actions:
        """The verified action that a transfer needs now; without one, the reason.

        Raises `ActionNotTrusted` if the action differs from `wanted` in any member; `NotFound`,
        `Unavailable`.
        """
        path = f"{_TRANSFERS}/{_segment(wanted.transfer)}/actions"
        shown = read(_ACTIONS, self._ask_as_owner("GET", path))
        if isinstance(shown.action, EvmCalls) and isinstance(wanted, Deposit):
            check_calls(shown.action, wanted, bridges)
        elif isinstance(shown.action, StellarTx) and isinstance(wanted, Outgoing):
            check_transaction(shown.action, wanted, bridges, int(time.time()))
        elif isinstance(shown.action, StellarTrustline) and isinstance(wanted, Deposit):
            check_onboarding(shown.action, wanted, bridges, int(time.time()))
        elif isinstance(shown.action, SendToAddress) and isinstance(wanted, Deposit):
            custody = Custody.of(self.transfer(wanted.transfer))
            check_address(shown.action, wanted, bridges, custody, int(time.time()))
        elif shown.action is not None:
            raise ActionNotTrusted(f"this version cannot verify {shown.action.kind!r} for it")
        return shown

    def submit_evm(self, transfer_id: str, tx_hash: str) -> Transfer:
        """Submit the hash of a mined transaction; of a smart wallet, the bundle's.

        Raises `Invalid` for a transaction that is not mined yet (`NOT_MINED`) or does not match the
        action, `Conflict` for one that was submitted before. For a payment to a deposit address
        that is not mined yet, the transfer is returned unchanged.
        """
        return self._submit(transfer_id, {"kind": "evm_tx", "hash": tx_hash})

    def submit_stellar(self, transfer_id: str, signed_xdr: str) -> Transfer:
        """Submit the signed transaction of an action: the service sends it and pays its fee.

        Raises `Invalid` for another transaction or for missing signatures, `Conflict` for one that
        was submitted before or is no longer needed.
        """
        return self._submit(transfer_id, {"kind": "stellar_tx", "signed_xdr": signed_xdr})

    def _submit(self, transfer_id: str, body: dict[str, str]) -> Transfer:
        path = f"{_TRANSFERS}/{_segment(transfer_id)}/submissions"
        return read(_TRANSFER, self._ask_as_owner("POST", path, body=body))

    # Authentication

    def sign_in(self) -> str:
        """A new token from the login. Raises `ChallengeNotTrusted`."""
        if self._login is None:
            raise ValueError("this client was given no login")
        self._signed_in = self._login.token(self._http, self._client.base_url)
        return self._signed_in

    def session(self) -> Session:
        """The token's account, as the API reads it."""
        return read(_SESSION, self._ask_as_owner("GET", "/v1/session"))

    def sign_out(self) -> None:
        """Revoke the token."""
        if self._token is None and self._signed_in is None:
            return
        read(_REVOKED, self._ask_as_owner("DELETE", "/v1/session"))
        self._signed_in = None

    def _ask_as_owner(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Signs in if there is no token, and once more if the API refuses it."""
        if self._token is not None:
            return self._http.ask(method, path, token=self._token(), **options)
        if self._signed_in is None:
            return self._http.ask(method, path, token=self.sign_in(), **options)
        try:
            return self._http.ask(method, path, token=self._signed_in, **options)
        except SignInNeeded:
            return self._http.ask(method, path, token=self.sign_in(), **options)

    def _get(self, kind: TypeAdapter[T], path: str, **query: Any) -> T:
        return read(kind, self._http.ask("GET", path, query=query))


_DOCUMENT = TypeAdapter(dict[str, Any])


def _text(amount: Decimal | int | str | None) -> str | None:
    """Without an exponent: the API refuses one. Raises `TypeError` for a float."""
    if amount is None:
        return None
    if isinstance(amount, float):
        raise TypeError("a float is inexact: give a Decimal")
    return f"{amount:f}" if isinstance(amount, Decimal) else str(amount)


def _segment(text: str) -> str:
    """Quoted as one segment of a path."""
    return quote(text, safe="")
