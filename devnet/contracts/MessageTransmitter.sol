// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Pausable} from "./Owned.sol";

interface MessageHandler {
    function handleReceiveFinalizedMessage(
        uint32 sourceDomain,
        bytes32 sender,
        uint32 finalityThresholdExecuted,
        bytes calldata messageBody
    ) external returns (bool);

    function handleReceiveUnfinalizedMessage(
        uint32 sourceDomain,
        bytes32 sender,
        uint32 finalityThresholdExecuted,
        bytes calldata messageBody
    ) external returns (bool);
}

/// CCTP V2 message transmitter: the same message bytes, events, checks and texts as Circle's.
///
/// MessageV2 header, big-endian: version 0:4, sourceDomain 4:8, destinationDomain 8:12,
/// nonce 12:44, sender 44:76, recipient 76:108, destinationCaller 108:140,
/// minFinalityThreshold 140:144, finalityThresholdExecuted 144:148, body 148:.
contract MessageTransmitter is Pausable {
    event MessageSent(bytes message);
    event MessageReceived(
        address indexed caller,
        uint32 sourceDomain,
        bytes32 indexed nonce,
        bytes32 sender,
        uint32 indexed finalityThresholdExecuted,
        bytes messageBody
    );
    event AttesterEnabled(address indexed attester);
    event AttesterDisabled(address indexed attester);

    uint32 public constant version = 1;
    uint256 public constant maxMessageBodySize = 8192;
    uint256 public constant NONCE_USED = 1;
    uint32 private constant FINALIZED = 2000;
    uint256 private constant HEADER_SIZE = 148;
    uint256 private constant SIGNATURE_SIZE = 65;
    /// Half of the secp256k1 order: a larger `s` is the malleable twin of a signature.
    uint256 private constant MAX_S =
        0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    uint32 public immutable localDomain;
    uint256 public immutable signatureThreshold;
    mapping(address => bool) public isEnabledAttester;
    address[] private enabledAttesters;
    /// By the message's nonce alone, whatever its source domain.
    mapping(bytes32 => uint256) public usedNonces;

    constructor(uint32 localDomain_, address[] memory attesters, uint256 signatureThreshold_) {
        require(signatureThreshold_ > 0, "Invalid signature threshold");
        require(signatureThreshold_ <= attesters.length, "New signature threshold too high");
        localDomain = localDomain_;
        signatureThreshold = signatureThreshold_;
        for (uint256 i = 0; i < attesters.length; i++) {
            _enable(attesters[i]);
        }
    }

    function enableAttester(address attester) external onlyOwner {
        _enable(attester);
    }

    function disableAttester(address attester) external onlyOwner {
        require(isEnabledAttester[attester], "Attester already disabled");
        isEnabledAttester[attester] = false;
        for (uint256 i = 0; i < enabledAttesters.length; i++) {
            if (enabledAttesters[i] == attester) {
                enabledAttesters[i] = enabledAttesters[enabledAttesters.length - 1];
                enabledAttesters.pop();
                break;
            }
        }
        emit AttesterDisabled(attester);
    }

    function getNumEnabledAttesters() external view returns (uint256) {
        return enabledAttesters.length;
    }

    function getEnabledAttester(uint256 index) external view returns (address) {
        return enabledAttesters[index];
    }

    /// The nonce and the executed threshold leave as zeros: the attesters fill them in.
    function sendMessage(
        uint32 destinationDomain,
        bytes32 recipient,
        bytes32 destinationCaller,
        uint32 minFinalityThreshold,
        bytes calldata messageBody
    ) external whenNotPaused {
        require(destinationDomain != localDomain, "Domain is local domain");
        require(messageBody.length <= maxMessageBodySize, "Message body exceeds max size");
        require(recipient != bytes32(0), "Recipient must be nonzero");
        emit MessageSent(
            abi.encodePacked(
                version,
                localDomain,
                destinationDomain,
                bytes32(0),
                bytes32(uint256(uint160(msg.sender))),
                recipient,
                destinationCaller,
                minFinalityThreshold,
                uint32(0),
                messageBody
            )
        );
    }

    function receiveMessage(bytes calldata message, bytes calldata attestation)
        external
        whenNotPaused
        returns (bool)
    {
        _verifyAttestation(keccak256(message), attestation);
        _checkHeader(message);
        bytes32 nonce = bytes32(message[12:44]);
        require(usedNonces[nonce] == 0, "Nonce already used");
        usedNonces[nonce] = NONCE_USED;
        _handle(message);
        emit MessageReceived(
            msg.sender,
            uint32(bytes4(message[4:8])),
            nonce,
            bytes32(message[44:76]),
            uint32(bytes4(message[144:148])),
            message[HEADER_SIZE:]
        );
        return true;
    }

    function _enable(address attester) private {
        require(!isEnabledAttester[attester], "Attester already enabled");
        isEnabledAttester[attester] = true;
        enabledAttesters.push(attester);
        emit AttesterEnabled(attester);
    }

    function _checkHeader(bytes calldata message) private view {
        require(message.length >= HEADER_SIZE, "Invalid message: too short");
        require(uint32(bytes4(message[8:12])) == localDomain, "Invalid destination domain");
        bytes32 caller = bytes32(message[108:140]);
        require(
            caller == bytes32(0) || caller == bytes32(uint256(uint160(msg.sender))),
            "Invalid caller for message"
        );
        require(uint32(bytes4(message[0:4])) == version, "Invalid message version");
    }

    function _handle(bytes calldata message) private {
        address recipient = address(uint160(uint256(bytes32(message[76:108]))));
        MessageHandler handler = MessageHandler(recipient);
        uint32 sourceDomain = uint32(bytes4(message[4:8]));
        bytes32 sender = bytes32(message[44:76]);
        uint32 finality = uint32(bytes4(message[144:148]));
        bytes calldata body = message[HEADER_SIZE:];
        if (finality < FINALIZED) {
            require(
                handler.handleReceiveUnfinalizedMessage(sourceDomain, sender, finality, body),
                "handleReceiveUnfinalizedMessage() failed"
            );
        } else {
            require(
                handler.handleReceiveFinalizedMessage(sourceDomain, sender, finality, body),
                "handleReceiveFinalizedMessage() failed"
            );
        }
    }

    /// `signatureThreshold` signatures of 65 bytes (r, s, v), signers strictly ascending.
    function _verifyAttestation(bytes32 digest, bytes calldata attestation) private view {
        require(
            attestation.length == SIGNATURE_SIZE * signatureThreshold, "Invalid attestation length"
        );
        address latest = address(0);
        for (uint256 i = 0; i < signatureThreshold; i++) {
            uint256 start = i * SIGNATURE_SIZE;
            address signer = _recover(digest, attestation[start:start + SIGNATURE_SIZE]);
            require(signer > latest, "Invalid signature order or dupe");
            require(isEnabledAttester[signer], "Invalid signature: not attester");
            latest = signer;
        }
    }

    function _recover(bytes32 digest, bytes calldata signature) private pure returns (address) {
        bytes32 s = bytes32(signature[32:64]);
        uint8 v = uint8(signature[64]);
        require(uint256(s) <= MAX_S, "ECDSA: invalid signature 's' value");
        require(v == 27 || v == 28, "ECDSA: invalid signature 'v' value");
        address signer = ecrecover(digest, v, bytes32(signature[0:32]), s);
        require(signer != address(0), "ECDSA: invalid signature");
        return signer;
    }
}
