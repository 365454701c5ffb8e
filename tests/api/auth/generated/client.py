"""Signs in and asks for a quote with the package that openapi-python-client generates.

    python client.py HOME_DOMAIN SEED

Prints the answers as JSON. `isthmus_generated` is the package, on PYTHONPATH.
"""

import json
import sys

from isthmus_generated import AuthenticatedClient, Client
from isthmus_generated.api.authentication import get_challenge, sign_in
from isthmus_generated.api.transfers import create_quote
from isthmus_generated.models import (
    Challenge,
    Error,
    NewQuote,
    NewQuoteRoute,
    NewSubmission,
    NewSubmissionKind,
    SignedChallenge,
    Token,
)
from stellar_sdk import Keypair, TransactionEnvelope


def main(home: str, seed: str) -> None:
    url, wallet = f"http://{home}", Keypair.from_secret(seed)
    client = Client(base_url=url)
    challenge = get_challenge.sync(client=client, account=wallet.public_key)
    assert isinstance(challenge, Challenge), challenge
    envelope = TransactionEnvelope.from_xdr(challenge.transaction, challenge.network_passphrase)
    envelope.sign(wallet)
    token = sign_in.sync(client=client, body=SignedChallenge(transaction=envelope.to_xdr()))
    assert isinstance(token, Token), token

    quote = NewQuote(
        route=NewQuoteRoute.USDC_SEND,
        amount_in="0",
        source_chain="stellar:testnet",
        source_address=wallet.public_key,
        dest_address=wallet.public_key,
    )
    signed_in = AuthenticatedClient(base_url=url, token=token.token)
    refused = create_quote.sync_detailed(client=signed_in, body=quote)
    assert isinstance(refused.parsed, Error), refused.parsed
    submission = NewSubmission(kind=NewSubmissionKind.STELLAR_TX, signed_xdr="AAAA")
    answers = {
        "token": token.token,
        "status": int(refused.status_code),
        "code": refused.parsed.code,
        "submission": submission.to_dict(),
    }
    sys.stdout.write(json.dumps(answers))


main(*sys.argv[1:])
