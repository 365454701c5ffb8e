"""The typed client of the HTTP API, for Python; see docs/client.md. Needs nothing of the rest.

with Isthmus("https://api.example.com") as isthmus:
    isthmus.offers(direction="onramp", currency="EUR")
"""

from api.client.errors import (
    BadAnswer,
    ChallengeNotTrusted,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotReached,
    Refused,
    SignInNeeded,
    TooMany,
    Unavailable,
)
from api.client.http import Patience
from api.client.isthmus import Isthmus
from api.client.login import Login, SignIn
from api.client.models import (
    ChainReadiness,
    DepthSummary,
    FeeDetail,
    Offer,
    Order,
    Provider,
    Quote,
    QuoteFee,
    RailDepth,
    Readiness,
    Route,
    RouteEnd,
    RouteFee,
    Session,
)
from api.client.stream import Moment, OfferKey

__all__ = [
    "BadAnswer",
    "ChainReadiness",
    "ChallengeNotTrusted",
    "ClientError",
    "Conflict",
    "DepthSummary",
    "FeeDetail",
    "Forbidden",
    "Invalid",
    "Isthmus",
    "Login",
    "Moment",
    "NotFound",
    "NotReached",
    "Offer",
    "OfferKey",
    "Order",
    "Patience",
    "Provider",
    "Quote",
    "QuoteFee",
    "RailDepth",
    "Readiness",
    "Refused",
    "Route",
    "RouteEnd",
    "RouteFee",
    "Session",
    "SignIn",
    "SignInNeeded",
    "TooMany",
    "Unavailable",
]
