"""Building and signing transactions for the devnet.

A contract call is tried first, as on any Stellar network: what it was found to need (footprint,
resources, authorisation) goes into the transaction before it is signed.
"""

from collections.abc import Callable, Sequence

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

from devnet.stellar.accounts import PASSPHRASE
from devnet.stellar.host import deployment
from devnet.stellar.simulation import Simulation

INCLUSION_FEE = 100
Prepare = Callable[[TransactionEnvelope], TransactionEnvelope]
Try = Callable[[xdr.TransactionEnvelope], Simulation]


def build(
    source: Keypair,
    sequence: int,
    operations: Sequence[Operation],
    prepare: Prepare,
    *,
    signers: Sequence[Keypair] = (),
    memo: Memo | None = None,
    time_bounds: tuple[int, int] = (0, 0),
) -> TransactionEnvelope:
    """A signed transaction with the given sequence number; bounds in seconds, (0, 0) for none.

    `prepare` fills in what a contract call needs, and is called for nothing else.
    """
    account = Account(source.public_key, sequence - 1)
    builder = TransactionBuilder(account, PASSPHRASE, base_fee=INCLUSION_FEE)
    builder.add_time_bounds(*time_bounds)
    if memo is not None:
        builder.add_memo(memo)
    for operation in operations:
        builder.append_operation(operation)
    envelope = builder.build()
    if any(isinstance(operation, InvokeHostFunction) for operation in operations):
        envelope = prepare(envelope)
    for signer in (source, *signers):
        envelope.sign(signer)
    return envelope


def prepared(envelope: TransactionEnvelope, simulate: Try) -> TransactionEnvelope:
    """The same with what a trial finds; a call that fails gets what it needed until then.

    So it fails in a ledger for the very reason for which it failed when it was tried.
    """
    simulation = simulate(envelope.to_xdr_object())
    transaction = envelope.transaction
    call = transaction.operations[0]
    assert isinstance(call, InvokeHostFunction)
    call.auth = list(simulation.auth)
    transaction.soroban_data = simulation.data
    transaction.fee += simulation.data.resource_fee.int64
    return envelope


def call(contract: str, function: str, *args: xdr.SCVal) -> InvokeHostFunction:
    """The operation that calls a contract function; who has to authorise it is found later."""
    invocation = xdr.InvokeContractArgs(
        contract_address=Address(contract).to_xdr_sc_address(),
        function_name=xdr.SCSymbol(function.encode()),
        args=list(args),
    )
    function_type = xdr.HostFunctionType.HOST_FUNCTION_TYPE_INVOKE_CONTRACT
    return InvokeHostFunction(xdr.HostFunction(function_type, invoke_contract=invocation), auth=[])


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
