"""The chain that these tests share: who is on it, what its logs are called, what comes to it."""

import json
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_utils.crypto import keccak

from devnet.evm import STELLAR_EID, dev_account, expected_addresses
from devnet.evm_deployment import StellarRemotes
from devnet.evm_messages import (
    FINALIZED,
    Attesters,
    BurnMessage,
    Packet,
    address_word,
    message_nonce,
    oft_message,
)
from devnet.evm_sending import Log, Receipt

REMOTES = StellarRemotes(
    token_messenger_minter=bytes.fromhex(
        "da6f9ee0786c812344d82817ef19b648b4af120f8bd10bf658e6b99eacff24b8"
    ),
    usdc_sac=bytes.fromhex("5045cd5ec0729a768fd5ad02505852df4f028dce830e5ac52209ba48483b2f01"),
    oft=bytes.fromhex("5d672cb21b3afcdda54546c7f5b9fd346920e41f8fe8f39e838e5d7bd7435546"),
)
GENUINE = json.loads((Path(__file__).parents[2] / "golden" / "devnet" / "genuine.json").read_text())
ALICE = dev_account(1)
BOB = dev_account(2)
RELAYER = dev_account(3)
RECIPIENT = bytes.fromhex("7bc55256d39dd4636bba4c88f790e65068321e2a09f8648d1144bd93a6c5c0a8")
ONE = 10**6

TOPICS = {
    "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32,bytes)": (
        "0c8c1cbdc5190613ebd485511d4e2812cfa45eecb79d845893331fedad5130a5"
    ),
    "MintAndWithdraw(address,uint256,address,uint256)": (
        "50c55e915134d457debfa58eb6f4342956f8b0616d51a89a3659360178e1ab63"
    ),
    "MessageSent(bytes)": "8c5261668696ce22758910d05bab8f186d6eb247ceac2af2e82c7dc17669b036",
    "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": (
        "ff48c13eda96b1cceacc6b9edeedc9e9db9d6226afbc30146b720c19d3addb1c"
    ),
    "Transfer(address,address,uint256)": (
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    ),
    "Approval(address,address,uint256)": (
        "8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925"
    ),
    "Mint(address,address,uint256)": (
        "ab8530f87dc9b59234c4623bf917212bb2536d647574c8e7e5da92c2ede0c9f8"
    ),
    "Burn(address,uint256)": "cc16f5dbb4873280815c1ee09dbd06736cffcc184412cf7a71a0fdb75d397ca5",
    "RemoteTokenMessengerAdded(uint32,bytes32)": (
        "4bba2b08298cf59661b4895e384cc2ac3962ce2d71f1b7c11bca52e1169f9599"
    ),
    "RemoteTokenMessengerRemoved(uint32,bytes32)": (
        "3dcea012093dbca2bb8ed7fd2b2ff90305ab70bddda8bbb94d4152735a98f0b1"
    ),
    "MinFeeSet(uint256)": "d4c19c993aeeb50b76da8b158f84806c9d235eff5b86f3a36f12a2e1dd4e6eac",
    "Denylisted(address)": "fa4507bc1f9c730e6e95897024f1fe7d576cf2deb53579d55c14f1ac3439e114",
    "UnDenylisted(address)": "c904e1b03de0c20d7fcf9dbd056daf1bd3815e93f251199de815fd0f0b96e166",
    "Pause()": "6985a02210a168e66602d3235cb6db0e70f92b3ba4d376a33c0f3d9434bff625",
    "Unpause()": "7805862f689e2f13df9f062ff482ad3ad112aca9e0847911ed832e158c525b33",
    "AttesterEnabled(address)": "5b99bab45c72ce67e89466dbc47480b9c1fde1400e7268bbf463b8354ee4653f",
    "AttesterDisabled(address)": "78e573a18c75957b7cadaab01511aa1c19a659f06ecf53e01de37ed92d3261fc",
    "SetBurnLimitPerMessage(address,uint256)": (
        "6aa98de3efb0f031e70a96b4bd97fafc58474ad59f4e890aa3733bba321ecca2"
    ),
    "OFTSent(bytes32,uint32,address,uint256,uint256)": (
        "85496b760a4b7f8d66384b9df21b381f5d1b1e79f229a47aaf4c232edc2fe59a"
    ),
    "OFTReceived(bytes32,uint32,address,uint256)": (
        "efed6d3500546b29533b128a29e3a94d70788727f0507505ac12eaf2e578fd9c"
    ),
    "PacketSent(bytes,bytes,address)": (
        "1ab700d4ced0c005b164c0f789fd09fcbb0156d4c2041b8a3bfbcd961cd1567f"
    ),
    "PacketVerified((uint32,bytes32,uint64),address,bytes32)": (
        "0d87345f3d1c929caba93e1c3821b54ff3512e12b66aa3cfe54b6bcbc17e59b4"
    ),
    "PacketDelivered((uint32,bytes32,uint64),address)": (
        "3cd5e48f9730b129dc7550f0fcea9c767b7be37837cd10e55eb35f734f4bca04"
    ),
    "LzReceiveAlert(address,address,(uint32,bytes32,uint64),"
    "bytes32,uint256,uint256,bytes,bytes,bytes)": (
        "7edfa10fe10193301ad8a8bea7e968c7bcabcc64981f368e3aeada40ce26ae2c"
    ),
    "ComposeSent(address,address,bytes32,uint16,bytes)": (
        "3d52ff888d033fd3dd1d8057da59e850c91d91a72c41dfa445b247dfedeb6dc1"
    ),
    "PeerSet(uint32,bytes32)": "238399d427b947898edb290f5ff0f9109849b1c3ba196a42e35f00c50a54b98b",
    "EnforcedOptionSet((uint32,uint16,bytes)[])": (
        "be4864a8e820971c0247f5992e2da559595f7bf076a21cb5928d443d2a13b674"
    ),
}
SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
NAMES = {topic: signature.partition("(")[0] for signature, topic in TOPICS.items()}


def names(receipt: Receipt) -> list[str]:
    return [NAMES[log.topics[0].hex()] for log in receipt.logs]


def address_of(word: bytes) -> str:
    return "0x" + word[12:].hex()


def the_log(receipt: Receipt, name: str) -> Log:
    [log] = [log for log in receipt.logs if NAMES[log.topics[0].hex()] == name]
    return log


def inbound_burn(amount: int = 5 * ONE, **changes) -> bytes:
    at = expected_addresses()
    defaults: dict[str, Any] = {
        "source_domain": 27,
        "destination_domain": 0,
        "sender": REMOTES.token_messenger_minter,
        "recipient": address_word(at.token_messenger),
        "burn_token": REMOTES.usdc_sac,
        "mint_recipient": address_word(BOB.address),
        "amount": amount,
        "message_sender": RECIPIENT,
    }
    return BurnMessage(**(defaults | changes)).encode()


def attested(source: bytes, finality: int = FINALIZED, **values) -> tuple[bytes, bytes]:
    nonce = message_nonce(source, 0)
    return Attesters().attest(source, nonce=nonce, finality_executed=finality, **values)


def inbound_packet(nonce: int = 1, amount: int = 7 * ONE, **changes) -> Packet:
    defaults: dict[str, Any] = {
        "nonce": nonce,
        "src_eid": STELLAR_EID,
        "sender": REMOTES.oft,
        "dst_eid": 30101,
        "receiver": address_word(expected_addresses().oft),
        "message": oft_message(address_word(BOB.address), amount),
    }
    return Packet(**(defaults | changes))


def signers(message: bytes, attestation: bytes) -> list[str]:
    digest = keccak(message)
    parts = [attestation[i : i + 65] for i in range(0, len(attestation), 65)]
    return [Account._recover_hash(digest, signature=part).lower() for part in parts]
