"""The contract host: runs Python contracts behind the interface of Soroban.

A call sees its own storage, may call other contracts, asks for authorisation and emits events.
Any error ends the whole invocation: nothing is written, nothing is emitted.

Authorisation, footprints and resources are held to the network's rules (`authorisation`,
`metering`). Entries never expire, so that nothing ever has to be restored.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from inspect import getmembers, isfunction
from typing import Any, ClassVar, TypeVar, get_type_hints

from stellar_sdk import Address, Asset, StrKey, scval, xdr

from devnet.stellar import asset_events
from devnet.stellar.accounts import DEPLOYMENT_NETWORK_ID, NETWORK_ID
from devnet.stellar.authorisation import Authorisation, Frame, Unauthorised, contract_call
from devnet.stellar.entries import contract_data_key
from devnet.stellar.metering import OutsideFootprint, Storage, Used
from devnet.stellar.values import Codec, WrongType, codec_of

INSTANCE_KEY = xdr.SCVal(xdr.SCValType.SCV_LEDGER_KEY_CONTRACT_INSTANCE)
CONSTRUCTOR = "__constructor"
EVENT_BYTES = 16 * 1024
"""Events and return value of one transaction together (the network's limit)."""


_INVALID_ACTION = (xdr.SCErrorType.SCE_CONTEXT, xdr.SCErrorCode.SCEC_INVALID_ACTION)
_UNAUTHORISED = (xdr.SCErrorType.SCE_AUTH, xdr.SCErrorCode.SCEC_INVALID_ACTION)
_OUTSIDE = (xdr.SCErrorType.SCE_STORAGE, xdr.SCErrorCode.SCEC_EXCEEDED_LIMIT)
_TOO_MUCH = (xdr.SCErrorType.SCE_BUDGET, xdr.SCErrorCode.SCEC_EXCEEDED_LIMIT)


class InvocationFailed(Exception):
    """A contract call cannot go on; `contract` is the one that raised it.

    `code` is the contract's own error; without one, `kind` is the host's.
    """

    def __init__(
        self,
        message: str,
        contract: str = "",
        code: int | None = None,
        kind: tuple[xdr.SCErrorType, xdr.SCErrorCode] = _INVALID_ACTION,
    ) -> None:
        super().__init__(message)
        self.contract = contract
        self.code = code
        self.kind = kind

    @property
    def error(self) -> xdr.SCError:
        """The error as the network words it."""
        if self.code is not None:
            contract = xdr.SCErrorType.SCE_CONTRACT
            return xdr.SCError(contract, contract_code=xdr.Uint32(self.code))
        return xdr.SCError(self.kind[0], code=self.kind[1])


C = TypeVar("C", bound=Callable[..., Any])


def exported(name: str) -> Callable[[C], C]:
    """Mark a method as the contract function `name`."""

    def mark(method: C) -> C:
        method.__contract_function__ = name  # type: ignore[attr-defined]
        return method

    return mark


@dataclass(frozen=True)
class Function:
    """A contract function: its method and the codecs of its parameters and return value."""

    method: str
    parameters: tuple[Codec[Any], ...]
    returns: Codec[Any]


class Contract:
    """Base of every devnet contract; `env` is the call that is going on."""

    CODE: ClassVar[str]

    def __init__(self, env: "Env") -> None:
        self.env = env

    @classmethod
    @cache
    def functions(cls) -> dict[str, Function]:
        """The contract's functions by name."""
        found: dict[str, Function] = {}
        for attribute, method in getmembers(cls, isfunction):
            name = getattr(method, "__contract_function__", None)
            if name is not None:
                hints = get_type_hints(method, include_extras=True)
                returns = codec_of(hints.pop("return"))
                found[name] = Function(attribute, tuple(map(codec_of, hints.values())), returns)
        return found

    @classmethod
    def code_hash(cls) -> bytes:
        """Stand-in for the hash of the contract's Wasm; there is no Wasm."""
        return sha256(f"isthmus devnet contract: {cls.CODE}".encode()).digest()


@dataclass(frozen=True)
class Ledger:
    """The ledger being closed, as contracts see it; time in seconds."""

    sequence: int
    close_time: int


@dataclass
class Host:
    """An invocation: its writes, authorisations and events."""

    layer: Storage
    ledger: Ledger
    authorisation: Authorisation
    contracts: dict[bytes, type[Contract]]
    token: type[Contract]
    events: list[xdr.ContractEvent] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    calls: int = 0

    @contextmanager
    def inside(self, frame: Frame) -> Iterator[None]:
        """A call that is going on."""
        self.calls += 1
        self.frames.append(frame)
        try:
            yield
        finally:
            self.frames.pop()

    def require(self, address: str) -> None:
        """The innermost call must be authorised by `address`, which is not its caller."""
        try:
            self.authorisation.require(address, self.frames, self.layer)
        except Unauthorised as error:
            contract = self.frames[-1].contract
            raise InvocationFailed(str(error), contract, kind=_UNAUTHORISED) from error

    def call(
        self, contract: str, name: str, args: list[xdr.SCVal], caller: str | None
    ) -> xdr.SCVal:
        """Run one function; raise `InvocationFailed` when it cannot finish."""
        kind = self._code_of(contract)
        function = kind.functions().get(name)
        if function is None:
            raise InvocationFailed(f"no function {name}", contract)
        if len(args) != len(function.parameters):
            raise InvocationFailed(
                f"{name} takes {len(function.parameters)} arguments, got {len(args)}", contract
            )
        try:
            values = [p.decode(arg) for p, arg in zip(function.parameters, args, strict=True)]
        except WrongType as error:
            raise InvocationFailed(f"{name}: {error}", contract) from error
        instance = kind(Env(self, contract, caller))
        invocation = xdr.InvokeContractArgs(
            Address(contract).to_xdr_sc_address(), xdr.SCSymbol(name.encode()), args
        )
        with self.inside(Frame(contract, contract_call(invocation))):
            return function.returns.encode(getattr(instance, function.method)(*values))

    def _code_of(self, contract: str) -> type[Contract]:
        entry = self.layer.contract_data(contract, INSTANCE_KEY)
        if entry is None or entry.instance is None:
            raise InvocationFailed("no such contract", contract)
        executable = entry.instance.executable
        if executable.wasm_hash is None:
            return self.token
        return self.contracts[executable.wasm_hash.hash]

    def create(
        self,
        preimage: xdr.ContractIDPreimage,
        executable: xdr.ContractExecutable,
        args: list[xdr.SCVal],
        function: xdr.SorobanAuthorizedFunction,
    ) -> xdr.SCVal:
        """Deploy a contract that the devnet knows, and run its constructor.

        `function` is this very creation, as its deployer has to authorise it.
        """
        contract = contract_id(preimage)
        with self.inside(Frame(contract, function)):
            return self._create(contract, preimage, executable, args)

    def _create(
        self,
        contract: str,
        preimage: xdr.ContractIDPreimage,
        executable: xdr.ContractExecutable,
        args: list[xdr.SCVal],
    ) -> xdr.SCVal:
        if self.layer.contract_data(contract, INSTANCE_KEY) is not None:
            raise InvocationFailed("the contract exists already", contract)
        kind, args = self._deployable(preimage, executable, args)
        instance = xdr.SCContractInstance(executable, None)
        value = xdr.SCVal(xdr.SCValType.SCV_CONTRACT_INSTANCE, instance=instance)
        self.layer.put_contract_data(contract, INSTANCE_KEY, value)
        if CONSTRUCTOR in kind.functions():
            self.call(contract, CONSTRUCTOR, args, None)
        elif args:
            raise InvocationFailed("the contract has no constructor", contract)
        return scval.to_address(contract)

    def _deployable(
        self,
        preimage: xdr.ContractIDPreimage,
        executable: xdr.ContractExecutable,
        args: list[xdr.SCVal],
    ) -> tuple[type[Contract], list[xdr.SCVal]]:
        asset = preimage.from_asset
        if asset is not None:
            if executable.wasm_hash is not None or args:
                raise InvocationFailed("an asset has a token contract only")
            name = asset_events.asset_name(Asset.from_xdr_object(asset))
            return self.token, [scval.to_string(name)]
        code = executable.wasm_hash
        if preimage.from_address is None or code is None or code.hash not in self.contracts:
            raise InvocationFailed("no such code on the devnet")
        deployer = Address.from_xdr_sc_address(preimage.from_address.address).address
        self.require(deployer)
        return self.contracts[code.hash], args


@dataclass(frozen=True)
class Env:
    """A call of a contract."""

    host: Host
    contract: str
    caller: str | None

    @property
    def ledger(self) -> Ledger:
        """The ledger that is being closed."""
        return self.host.ledger

    def fail(self, code: int, why: str) -> InvocationFailed:
        """The contract's own error `code`, to be raised."""
        return InvocationFailed(f"{why} (contract error {code})", self.contract, code)

    def require_auth(self, address: str) -> None:
        """The contract that called this one must be `address`, or `address` have authorised it."""
        if address != self.caller:
            self.host.require(address)

    def load(self, key: xdr.SCVal, codec: Codec[Any]) -> Any:
        """A stored value, or None."""
        value = self.host.layer.contract_data(self.contract, key)
        return None if value is None else codec.decode(value)

    def store(self, key: xdr.SCVal, codec: Codec[Any], value: Any) -> None:
        """Write a value of the contract's own storage."""
        self.host.layer.put_contract_data(self.contract, key, codec.encode(value))

    def remove(self, key: xdr.SCVal) -> None:
        """Delete a value of the contract's own storage."""
        self.host.layer.remove(contract_data_key(self.contract, key))

    def emit(self, topics: list[xdr.SCVal], data: xdr.SCVal) -> None:
        """Emit an event of this contract."""
        self.host.events.append(asset_events.contract_event(self.contract, topics, data))

    def emit_raw(self, event: xdr.ContractEvent) -> None:
        """Emit an event that is built elsewhere."""
        self.host.events.append(event)

    def call(self, contract: str, name: str, *args: xdr.SCVal) -> xdr.SCVal:
        """Call another contract, as its direct invoker."""
        return self.host.call(contract, name, list(args), self.contract)

    def exists(self, contract: str) -> bool:
        """Is there a contract with this id?"""
        return self.host.layer.contract_data(contract, INSTANCE_KEY) is not None


def contract_id(preimage: xdr.ContractIDPreimage) -> str:
    """The `C…` id: sha256 of the network id and of deployer and salt, or of the asset."""
    is_deployed = preimage.from_address is not None
    network_id = DEPLOYMENT_NETWORK_ID if is_deployed else NETWORK_ID
    hashed = xdr.HashIDPreimage(
        xdr.EnvelopeType.ENVELOPE_TYPE_CONTRACT_ID,
        contract_id=xdr.HashIDPreimageContractID(xdr.Hash(network_id), preimage),
    )
    return StrKey.encode_contract(sha256(hashed.to_xdr_bytes()).digest())


def deployment(deployer: str, salt: bytes) -> xdr.ContractIDPreimage:
    """The id pre-image of a contract that an account deploys."""
    return xdr.ContractIDPreimage(
        xdr.ContractIDPreimageType.CONTRACT_ID_PREIMAGE_FROM_ADDRESS,
        from_address=xdr.ContractIDPreimageFromAddress(
            Address(deployer).to_xdr_sc_address(), xdr.Uint256(salt)
        ),
    )


@dataclass(frozen=True)
class Invoked:
    """Result of an invocation: value, events, resources used."""

    value: xdr.SCVal
    events: tuple[xdr.ContractEvent, ...]
    used: Used

    @property
    def pre_image_hash(self) -> bytes:
        """Hash in a successful result: sha256 of return value and events."""
        pre_image = xdr.InvokeHostFunctionSuccessPreImage(self.value, list(self.events))
        return sha256(pre_image.to_xdr_bytes()).digest()


def invoke(host: Host, function: xdr.HostFunction) -> Invoked:
    """Run a host function; raise `InvocationFailed` with the layer to be thrown away."""
    try:
        value = _run(host, function)
    except OutsideFootprint as error:
        raise InvocationFailed(str(error), kind=_OUTSIDE) from error
    except ValueError as error:
        # A value that no ScVal can hold (an i128 overflow, say) is a trap in a real host too.
        raise InvocationFailed(f"value out of range: {error}") from error
    size = sum(len(event.to_xdr_bytes()) for event in host.events) + len(value.to_xdr_bytes())
    if size > EVENT_BYTES:
        raise InvocationFailed(f"{size} bytes of events, {EVENT_BYTES} allowed", kind=_TOO_MUCH)
    return Invoked(value, tuple(host.events), Used.of(host.layer, host.calls, size))


def _run(host: Host, function: xdr.HostFunction) -> xdr.SCVal:
    kind = xdr.SorobanAuthorizedFunctionType
    if function.invoke_contract is not None:
        call = function.invoke_contract
        contract = Address.from_xdr_sc_address(call.contract_address).address
        name = call.function_name.sc_symbol.decode()
        if name.startswith("__"):
            raise InvocationFailed(f"{name} may not be called", contract)
        return host.call(contract, name, call.args, None)
    if function.create_contract is not None:
        create = function.create_contract
        authorised = xdr.SorobanAuthorizedFunction(
            kind.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CREATE_CONTRACT_HOST_FN,
            create_contract_host_fn=create,
        )
        return host.create(create.contract_id_preimage, create.executable, [], authorised)
    if function.create_contract_v2 is not None:
        create_v2 = function.create_contract_v2
        authorised = xdr.SorobanAuthorizedFunction(
            kind.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CREATE_CONTRACT_V2_HOST_FN,
            create_contract_v2_host_fn=create_v2,
        )
        preimage, executable = create_v2.contract_id_preimage, create_v2.executable
        return host.create(preimage, executable, create_v2.constructor_args, authorised)
    raise InvocationFailed("the devnet takes no Wasm")


def diagnostic(failure: InvocationFailed) -> xdr.DiagnosticEvent:
    """Why an invocation failed, as a node reports it beside the result."""
    error = xdr.SCVal(xdr.SCValType.SCV_ERROR, error=failure.error)
    address = Address(failure.contract).to_xdr_sc_address() if failure.contract else None
    event = xdr.ContractEvent(
        ext=xdr.ExtensionPoint(0),
        contract_id=None if address is None else address.contract_id,
        type=xdr.ContractEventType.DIAGNOSTIC,
        body=xdr.ContractEventBody(
            0,
            v0=xdr.ContractEventV0(
                [scval.to_symbol("error"), error], scval.to_string(str(failure))
            ),
        ),
    )
    return xdr.DiagnosticEvent(False, event)
