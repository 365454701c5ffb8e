"""Contracts of the bridges, from their issuers' pages. Actions are verified against them.

They do not come from the API, because they are used to check it. Sources:
developers.circle.com/cctp/references/contract-addresses and /stablecoins/usdc-contract-addresses,
developers.stellar.org/docs/tokens/usdt0-layerzero, docs.usdt0.to. Callers can define
other networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class EvmBridges:
    """Contracts of an EVM chain; None where there is none. Addresses are lower-case."""

    usdc: str | None = None
    token_messenger: str | None = None
    """Circle's TokenMessengerV2."""
    usdt0: str | None = None
    """The token; on Ethereum USDT."""
    oft: str | None = None
    """The USDT0 OFT; on Ethereum its adapter."""
    cctp_domain: int | None = None
    lz_eid: int | None = None
    """The chain's CCTP domain and LayerZero endpoint id."""
    has_deposit_factory: bool = False
    """Whether the service's factory is deployed there, at its one address: check on an explorer."""


@dataclass(frozen=True)
class StellarBridges:
    """Contracts of a Stellar network; None where there is none."""

    network: str
    """Its passphrase."""
    usdc: str
    """Issuer of USDC, `G…`."""
    messenger: str | None
    """Circle's token_messenger_minter, `C…`."""
    usdt0: str | None = None
    """Issuer of USDT0, `G…`."""
    oft: str | None = None
    """The USDT0 OFT, `C…`."""


@dataclass(frozen=True)
class Bridges:
    """Contracts of a network; `evm` by CAIP-2 id."""

    evm: Mapping[str, EvmBridges]
    cctp_forwarder: str
    """Circle's CctpForwarder on Stellar, `C…`."""
    stellar: StellarBridges
    cctp_domain: int = 27
    """Stellar's CCTP domain."""
    lz_eid: int = 30600
    """Stellar's LayerZero endpoint id."""


_MESSENGER = "0x28b5a0e9c621a5badaa536219b3a228c8168cf5d"
_TEST_MESSENGER = "0x8fe6b999dc680ccfdd5bf7eb0974218be2542daa"

MAINNET = Bridges(
    MappingProxyType(
        {
            "eip155:1": EvmBridges(
                usdc="0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
                token_messenger=_MESSENGER,
                usdt0="0xdac17f958d2ee523a2206206994597c13d831ec7",
                oft="0x6c96de32cea08842dcc4058c14d3aaad7fa41dee",
                cctp_domain=0,
                lz_eid=30101,
            ),
            "eip155:43114": EvmBridges(
                usdc="0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e",
                token_messenger=_MESSENGER,
                cctp_domain=1,
            ),
            "eip155:10": EvmBridges(
                usdc="0x0b2c639c533813f4aa9d7837caf62653d097ff85",
                token_messenger=_MESSENGER,
                usdt0="0x01bff41798a0bcf287b996046ca68b395dbc1071",
                oft="0xf03b4d9ac1d5d1e7c4cef54c2a313b9fe051a0ad",
                cctp_domain=2,
                lz_eid=30111,
            ),
            "eip155:42161": EvmBridges(
                usdc="0xaf88d065e77c8cc2239327c5edb3a432268e5831",
                token_messenger=_MESSENGER,
                usdt0="0xfd086bc7cd5c481dcc9c85ebe478a1c0b69fcbb9",
                oft="0x14e4a1b13bf7f943c8ff7c51fb60fa964a298d92",
                cctp_domain=3,
                lz_eid=30110,
            ),
            "eip155:8453": EvmBridges(
                usdc="0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
                token_messenger=_MESSENGER,
                cctp_domain=6,
            ),
            "eip155:137": EvmBridges(
                usdc="0x3c499c542cef5e3811e1192ce70d8cc03d5c3359",
                token_messenger=_MESSENGER,
                usdt0="0xc2132d05d31c914a87c6611c10748aeb04b58e8f",
                oft="0x6ba10300f0dc58b7a1e4c0e41f5dabb7d7829e13",
                cctp_domain=7,
                lz_eid=30109,
            ),
            "eip155:130": EvmBridges(
                usdc="0x078d782b760474a361dda0af3839290b0ef57ad6",
                token_messenger=_MESSENGER,
                cctp_domain=10,
            ),
            "eip155:480": EvmBridges(
                usdc="0x79a02482a880bce3f13e09da970dc34db4cd24d1",
                token_messenger=_MESSENGER,
                cctp_domain=14,
            ),
            "eip155:143": EvmBridges(
                usdc="0x754704bc059f8c67012fed69bc8a327a5aafb603",
                token_messenger=_MESSENGER,
                usdt0="0xe7cd86e13ac4309349f30b3435a9d337750fc82d",
                oft="0x9151434b16b9763660705744891fa906f660ecc5",
                cctp_domain=15,
                lz_eid=30390,
            ),
            "eip155:1329": EvmBridges(
                usdc="0xe15fc38f6d8c56af07bbcbe3baf5708a2bf42392",
                token_messenger=_MESSENGER,
                usdt0="0x9151434b16b9763660705744891fa906f660ecc5",
                oft="0x56fe74a2e3b484b921c447357203431a3485cc60",
                cctp_domain=16,
                lz_eid=30280,
            ),
            "eip155:999": EvmBridges(
                usdc="0xb88339cb7199b77e23db6e890353e22632ba630f",
                token_messenger=_MESSENGER,
                usdt0="0xb8ce59fc3717ada4c02eadf9682a9e934f625ebb",
                oft="0x904861a24f30ec96ea7cfc3be9ea4b476d237e98",
                cctp_domain=19,
                lz_eid=30367,
            ),
            "eip155:57073": EvmBridges(
                usdc="0x2d270e6886d130d724215a266106e6832161eaed",
                token_messenger=_MESSENGER,
                usdt0="0x0200c29006150606b650577bbe7b6248f58470c1",
                oft="0x1cb6de532588fca4a21b7209de7c456af8434a65",
                cctp_domain=21,
                lz_eid=30339,
            ),
            "eip155:80094": EvmBridges(
                usdt0="0x779ded0c9e1022225f8e0630b35a9b54be713736",
                oft="0x3dc96399109df5ceb2c226664a086140bd0379cb",
                lz_eid=30362,
            ),
            "eip155:9745": EvmBridges(
                usdt0="0xb8ce59fc3717ada4c02eadf9682a9e934f625ebb",
                oft="0x02ca37966753bdddf11216b73b16c1de756a7cf9",
                lz_eid=30383,
            ),
            "eip155:4326": EvmBridges(
                usdt0="0xb8ce59fc3717ada4c02eadf9682a9e934f625ebb",
                oft="0x9151434b16b9763660705744891fa906f660ecc5",
                lz_eid=30398,
            ),
            "eip155:14": EvmBridges(
                usdt0="0xe7cd86e13ac4309349f30b3435a9d337750fc82d",
                oft="0x567287d2a9829215a37e3b88843d32f9221e7588",
                lz_eid=30295,
            ),
        }
    ),
    cctp_forwarder="CBZL2IH7F6BIDAA3WBNXYKIXSATJGMSW7K5P5MJ6STX5RXN47TZJDF5T",
    stellar=StellarBridges(
        network="Public Global Stellar Network ; September 2015",
        usdc="GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
        messenger="CAE2G5Z77UP7GYPYGFOWFGW7C7J6I4YP2AFGSADRKQY62SYUFLPNFTXL",
        usdt0="GATISXX6BZ6NC7IKQBY37CJD4SOZL3CYZJWXEDG6JVIY4WBS6KXJHN6Q",
        oft="CBOWOLFSDM5PZXNFIVDMP5NZ7U2GSIHED6H6R446QOHF266XINKUMMF6",
    ),
)

TESTNET = Bridges(
    MappingProxyType(
        {
            "eip155:11155111": EvmBridges(
                usdc="0x1c7d4b196cb0c7b01d743fbc6116a902379c7238",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=0,
            ),
            "eip155:43113": EvmBridges(
                usdc="0x5425890298aed601595a70ab815c96711a31bc65",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=1,
            ),
            "eip155:11155420": EvmBridges(
                usdc="0x5fd84259d66cd46123540766be93dfe6d43130d7",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=2,
            ),
            "eip155:421614": EvmBridges(
                usdc="0x75faf114eafb1bdbe2f0316df893fd58ce46aa4d",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=3,
            ),
            "eip155:84532": EvmBridges(
                usdc="0x036cbd53842c5426634e7929541ec2318f3dcf7e",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=6,
            ),
            "eip155:80002": EvmBridges(
                usdc="0x41e94eb019c0762f9bfcf9fb1e58725bfb0e7582",
                token_messenger=_TEST_MESSENGER,
                cctp_domain=7,
            ),
        }
    ),
    cctp_forwarder="CA66Q2WFBND6V4UEB7RD4SAXSVIWMD6RA4X3U32ELVFGXV5PJK4T4VSZ",
    stellar=StellarBridges(
        network="Test SDF Network ; September 2015",
        usdc="GBBD47IF6LWK7P7MDEVSCWR7DPUWV3NY3DTQEVFL4NAT4AQH3ZLLFLA5",
        messenger="CDNG7HXAPBWICI2E3AUBP3YZWZELJLYSB6F5CC7WLDTLTHVM74SLRTHP",
    ),
)
