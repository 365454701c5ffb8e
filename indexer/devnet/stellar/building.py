"""Building and signing transactions for the devnet, without simulation.

A contract call carries the least Soroban data there is (no footprint, a flat resource fee): the
devnet accepts that, a real network would not.
"""

from collections.abc import Sequence

from stellar_sdk import (
    Account,
    Address,
    Keypair,
    TransactionBuilder,
    TransactionEnvelope,
    xdr,
)
from stellar_sdk.memo import Memo
from stellar_sdk.operation import InvokeHostFunction, Operation

from indexer.devnet.stellar.accounts import PASSPHRASE
from indexer.devnet.stellar.host import deployment

RESOURCE_FEE = 10_000
"""Stroops offered for the resources of a contract call."""
INCLUSION_FEE = 100
_SOROBAN_DATA = xdr.SorobanTransactionData(
    xdr.SorobanTransactionDataExt(0),
    xdr.SorobanResources(xdr.LedgerFootprint([], []), xdr.Uint32(0), xdr.Uint32(0), xdr.Uint32(0)),
    xdr.Int64(RESOURCE_FEE),
)


def build(
    source: Keypair,
    sequence: int,
    operations: Sequence[Operation],
    *,
    signers: Sequence[Keypair] = (),
    memo: Memo | None = None,
    time_bounds: tuple[int, int] = (0, 0),
) -> TransactionEnvelope:
    """A signed transaction with the given sequence number; bounds in seconds, (0, 0) for none."""
    account = Account(source.public_key, sequence - 1)
    builder = TransactionBuilder(account, PASSPHRASE, base_fee=INCLUSION_FEE)
    builder.add_time_bounds(*time_bounds)
    if memo is not None:
        builder.add_memo(memo)
    for operation in operations:
        builder.append_operation(operation)
    if any(isinstance(operation, InvokeHostFunction) for operation in operations):
        builder.set_soroban_data(_SOROBAN_DATA)
    envelope = builder.build()
    for signer in (source, *signers):
        envelope.sign(signer)
    return envelope


def call(contract: str, function: str, *args: xdr.SCVal) -> InvokeHostFunction:
    """The operation that calls a contract function, authorised by its source account."""
    invocation = xdr.InvokeContractArgs(
        contract_address=Address(contract).to_xdr_sc_address(),
        function_name=xdr.SCSymbol(function.encode()),
        args=list(args),
    )
    authorised = xdr.SorobanAuthorizedFunction(
        xdr.SorobanAuthorizedFunctionType.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CONTRACT_FN,
        contract_fn=invocation,
    )
    entry = xdr.SorobanAuthorizationEntry(
        xdr.SorobanCredentials(xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT),
        xdr.SorobanAuthorizedInvocation(authorised, []),
    )
    function_type = xdr.HostFunctionType.HOST_FUNCTION_TYPE_INVOKE_CONTRACT
    return InvokeHostFunction(
        xdr.HostFunction(function_type, invoke_contract=invocation), auth=[entry]
    )


def deploy(
    deployer: str, salt: bytes, code_hash: bytes, constructor_args: Sequence[xdr.SCVal]
) -> InvokeHostFunction:
    """The operation that deploys a contract of the devnet and runs its constructor."""
    executable = xdr.ContractExecutable(
        xdr.ContractExecutableType.CONTRACT_EXECUTABLE_WASM, wasm_hash=xdr.Hash(code_hash)
    )
    create = xdr.CreateContractArgsV2(
        deployment(deployer, salt), executable, list(constructor_args)
    )
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_CREATE_CONTRACT_V2
    return InvokeHostFunction(xdr.HostFunction(kind, create_contract_v2=create))
