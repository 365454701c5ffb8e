// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {MessageHandler} from "./MessageTransmitter.sol";
import {Owned} from "./Owned.sol";

interface Transferable {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

interface Minter {
    function burn(address token, uint256 amount) external;

    function mint(uint32 sourceDomain, bytes32 burnToken, address to, uint256 amount)
        external
        returns (address);

    function mint(
        uint32 sourceDomain,
        bytes32 burnToken,
        address recipientOne,
        address recipientTwo,
        uint256 amountOne,
        uint256 amountTwo
    ) external returns (address);
}

interface Transmitter {
    function sendMessage(
        uint32 destinationDomain,
        bytes32 recipient,
        bytes32 destinationCaller,
        uint32 minFinalityThreshold,
        bytes calldata messageBody
    ) external;
}

/// CCTP V2 token messenger: the same functions, events, message bodies and texts as Circle's.
///
/// BurnMessageV2 body, big-endian: version 0:4, burnToken 4:36, mintRecipient 36:68,
/// amount 68:100, messageSender 100:132, maxFee 132:164, feeExecuted 164:196,
/// expirationBlock 196:228, hookData 228: (raw, no length).
contract TokenMessenger is Owned, MessageHandler {
    event DepositForBurn(
        address indexed burnToken,
        uint256 amount,
        address indexed depositor,
        bytes32 mintRecipient,
        uint32 destinationDomain,
        bytes32 destinationTokenMessenger,
        bytes32 destinationCaller,
        uint256 maxFee,
        uint32 indexed minFinalityThreshold,
        bytes hookData
    );
    event MintAndWithdraw(
        address indexed mintRecipient,
        uint256 amount,
        address indexed mintToken,
        uint256 feeCollected
    );
    event RemoteTokenMessengerAdded(uint32 domain, bytes32 tokenMessenger);
    event RemoteTokenMessengerRemoved(uint32 domain, bytes32 tokenMessenger);
    event LocalMinterAdded(address localMinter);
    event FeeRecipientSet(address feeRecipient);
    event MinFeeSet(uint256 minFee);
    event Denylisted(address indexed account);
    event UnDenylisted(address indexed account);

    /// What one burn asks for; in memory because ten locals do not fit the stack.
    struct Order {
        uint256 amount;
        uint32 destinationDomain;
        bytes32 mintRecipient;
        address burnToken;
        bytes32 destinationCaller;
        uint256 maxFee;
        uint32 minFinalityThreshold;
    }

    uint32 public constant messageBodyVersion = 1;
    uint256 public constant MIN_FEE_MULTIPLIER = 10_000_000;
    uint32 private constant MIN_FINALITY = 500;
    uint256 private constant BODY_SIZE = 228;

    address public immutable localMessageTransmitter;
    Minter public localMinter;
    address public feeRecipient;
    /// Units of 1/10,000,000 of the amount.
    uint256 public minFee;
    mapping(uint32 => bytes32) public remoteTokenMessengers;
    mapping(address => bool) public isDenylisted;

    modifier notDenylistedCallers() {
        require(!isDenylisted[msg.sender], "Denylistable: account is on denylist");
        require(!isDenylisted[tx.origin], "Denylistable: account is on denylist");
        _;
    }

    modifier onlyAttestedRemote(uint32 remoteDomain, bytes32 sender) {
        require(msg.sender == localMessageTransmitter, "Invalid message transmitter");
        require(
            sender != bytes32(0) && remoteTokenMessengers[remoteDomain] == sender,
            "Remote TokenMessenger unsupported"
        );
        _;
    }

    constructor(address localMessageTransmitter_, address feeRecipient_) {
        localMessageTransmitter = localMessageTransmitter_;
        feeRecipient = feeRecipient_;
        emit FeeRecipientSet(feeRecipient_);
    }

    function addLocalMinter(Minter minter) external onlyOwner {
        localMinter = minter;
        emit LocalMinterAdded(address(minter));
    }

    function addRemoteTokenMessenger(uint32 domain, bytes32 tokenMessenger) external onlyOwner {
        remoteTokenMessengers[domain] = tokenMessenger;
        emit RemoteTokenMessengerAdded(domain, tokenMessenger);
    }

    function removeRemoteTokenMessenger(uint32 domain) external onlyOwner {
        bytes32 removed = remoteTokenMessengers[domain];
        delete remoteTokenMessengers[domain];
        emit RemoteTokenMessengerRemoved(domain, removed);
    }

    function setMinFee(uint256 minFee_) external onlyOwner {
        require(minFee_ < MIN_FEE_MULTIPLIER, "Min fee too high");
        minFee = minFee_;
        emit MinFeeSet(minFee_);
    }

    function denylist(address account) external onlyOwner {
        isDenylisted[account] = true;
        emit Denylisted(account);
    }

    function unDenylist(address account) external onlyOwner {
        isDenylisted[account] = false;
        emit UnDenylisted(account);
    }

    function depositForBurn(
        uint256 amount,
        uint32 destinationDomain,
        bytes32 mintRecipient,
        address burnToken,
        bytes32 destinationCaller,
        uint256 maxFee,
        uint32 minFinalityThreshold
    ) external notDenylistedCallers {
        _burn(
            Order(
                amount,
                destinationDomain,
                mintRecipient,
                burnToken,
                destinationCaller,
                maxFee,
                minFinalityThreshold
            ),
            ""
        );
    }

    function depositForBurnWithHook(
        uint256 amount,
        uint32 destinationDomain,
        bytes32 mintRecipient,
        address burnToken,
        bytes32 destinationCaller,
        uint256 maxFee,
        uint32 minFinalityThreshold,
        bytes calldata hookData
    ) external notDenylistedCallers {
        require(hookData.length > 0, "Hook data is empty");
        _burn(
            Order(
                amount,
                destinationDomain,
                mintRecipient,
                burnToken,
                destinationCaller,
                maxFee,
                minFinalityThreshold
            ),
            hookData
        );
    }

    function handleReceiveFinalizedMessage(
        uint32 remoteDomain,
        bytes32 sender,
        uint32,
        bytes calldata messageBody
    ) external override onlyAttestedRemote(remoteDomain, sender) returns (bool) {
        return _mint(remoteDomain, messageBody);
    }

    function handleReceiveUnfinalizedMessage(
        uint32 remoteDomain,
        bytes32 sender,
        uint32 finalityThresholdExecuted,
        bytes calldata messageBody
    ) external override onlyAttestedRemote(remoteDomain, sender) returns (bool) {
        require(finalityThresholdExecuted >= MIN_FINALITY, "Unsupported finality threshold");
        return _mint(remoteDomain, messageBody);
    }

    /// The smallest `maxFee` that a burn of `amount` must offer: at least 1 once a fee is set.
    function getMinFeeAmount(uint256 amount) public view returns (uint256) {
        if (minFee == 0) return 0;
        require(amount > 1, "Amount too low");
        uint256 fee = amount * minFee / MIN_FEE_MULTIPLIER;
        return fee == 0 ? 1 : fee;
    }

    function _burn(Order memory order, bytes memory hookData) private {
        require(order.amount > 0, "Amount must be nonzero");
        require(order.mintRecipient != bytes32(0), "Mint recipient must be nonzero");
        require(order.maxFee < order.amount, "Max fee must be less than amount");
        require(order.maxFee >= getMinFeeAmount(order.amount), "Insufficient max fee");
        bytes32 remote = remoteTokenMessengers[order.destinationDomain];
        require(remote != bytes32(0), "No TokenMessenger for domain");
        _pullAndBurn(order.burnToken, order.amount);
        Transmitter(localMessageTransmitter).sendMessage(
            order.destinationDomain,
            remote,
            order.destinationCaller,
            order.minFinalityThreshold,
            _body(order, hookData)
        );
        emit DepositForBurn(
            order.burnToken,
            order.amount,
            msg.sender,
            order.mintRecipient,
            order.destinationDomain,
            remote,
            order.destinationCaller,
            order.maxFee,
            order.minFinalityThreshold,
            hookData
        );
    }

    function _pullAndBurn(address burnToken, uint256 amount) private {
        require(
            Transferable(burnToken).transferFrom(msg.sender, address(localMinter), amount),
            "Transfer operation failed"
        );
        localMinter.burn(burnToken, amount);
    }

    /// The executed fee and the expiration leave as zeros: the attesters fill them in.
    function _body(Order memory order, bytes memory hookData) private view returns (bytes memory) {
        return abi.encodePacked(
            messageBodyVersion,
            bytes32(uint256(uint160(order.burnToken))),
            order.mintRecipient,
            order.amount,
            bytes32(uint256(uint160(msg.sender))),
            order.maxFee,
            uint256(0),
            uint256(0),
            hookData
        );
    }

    function _mint(uint32 remoteDomain, bytes calldata body) private returns (bool) {
        require(body.length >= BODY_SIZE, "Invalid burn message: too short");
        require(uint32(bytes4(body[0:4])) == messageBodyVersion, "Invalid message body version");
        uint256 expiration = uint256(bytes32(body[196:228]));
        require(
            expiration == 0 || expiration > block.number, "Message expired and must be re-signed"
        );
        uint256 amount = uint256(bytes32(body[68:100]));
        uint256 fee = uint256(bytes32(body[164:196]));
        require(fee == 0 || fee < amount, "Fee equals or exceeds amount");
        require(fee <= uint256(bytes32(body[132:164])), "Fee exceeds max fee");
        address recipient = address(uint160(uint256(bytes32(body[36:68]))));
        bytes32 burnToken = bytes32(body[4:36]);
        address token = fee == 0
            ? localMinter.mint(remoteDomain, burnToken, recipient, amount)
            : localMinter.mint(remoteDomain, burnToken, recipient, feeRecipient, amount - fee, fee);
        emit MintAndWithdraw(recipient, amount - fee, token, fee);
        return true;
    }
}
