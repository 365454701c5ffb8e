"""CCTP toward the Stellar stand-in: what the EVM side sends, and how it is handed in."""

from stellar_sdk import scval

from devnet.evm_messages import FINALIZED, Attesters, BurnMessage
from devnet.stellar.accounts import secret
from devnet.stellar.contracts.cctp_messages import forwarding_hook
from devnet.stellar.registry import Remotes, devnet_contracts, padded

AT = devnet_contracts()
ATTESTERS = Attesters()
REMOTES = Remotes(
    token_messenger=secret("evm messenger")[-20:],
    usdc=secret("evm usdc")[-20:],
    oft=secret("evm oft")[-20:],
    attesters=(
        bytes.fromhex(ATTESTERS.addresses[0][2:]),
        bytes.fromhex(ATTESTERS.addresses[1][2:]),
    ),
)
RECIPIENT = padded(b"\x11" * 20)
NONCE = b"\x33" * 32
TRANSFER_ID = b"\x07" * 16


def code(number):
    return f"contract error {number})"


def inbound(recipient, amount=5_000_000, hook=None, fee=0, **options):
    """A burn on the EVM side toward the forwarder, as attested: (message, attestation)."""
    fields = {
        "source_domain": 0,
        "destination_domain": 27,
        "sender": padded(REMOTES.token_messenger),
        "recipient": AT.raw("token_messenger_minter"),
        "burn_token": padded(REMOTES.usdc),
        "mint_recipient": AT.raw("cctp_forwarder"),
        "destination_caller": AT.raw("cctp_forwarder"),
        "amount": amount,
        "message_sender": RECIPIENT,
        "max_fee": options.pop("max_fee", fee),
        "hook_data": forwarding_hook(recipient, TRANSFER_ID) if hook is None else hook,
    }
    attested = {
        "nonce": options.pop("nonce", NONCE),
        "finality_executed": options.pop("finality", FINALIZED),
        "fee_executed": fee,
        "expiration": options.pop("expiration", 0),
    }
    source = BurnMessage(**{**fields, **options})
    return ATTESTERS.attest(source.encode(), **attested)


def forward(chain, relayer, message, attestation, run="call"):
    return getattr(chain, run)(
        relayer,
        AT.cctp_forwarder,
        "mint_and_forward",
        scval.to_bytes(message),
        scval.to_bytes(attestation),
    )
