// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    MessagingEndpoint,
    MessagingFee,
    MessagingParams,
    MessagingReceipt,
    MessagingReceiver,
    Origin
} from "./LayerZero.sol";
import {Owned} from "./Owned.sol";

/// LayerZero V2 endpoint with its message library folded in: the same packet bytes, guid, events,
/// nonce rules and errors. One verifier stands for the whole set of DVNs, and a fixed native fee
/// for theirs and the executor's.
///
/// Packet, big-endian: version 0:1 (= 1), nonce 1:9, srcEid 9:13, sender 13:45, dstEid 45:49,
/// receiver 49:81, guid 81:113, message 113:.  guid = keccak256(packet[1:81]).
contract OftEndpoint is Owned, MessagingEndpoint {
    event PacketSent(bytes encodedPayload, bytes options, address sendLibrary);
    event PacketVerified(Origin origin, address receiver, bytes32 payloadHash);
    event PacketDelivered(Origin origin, address receiver);
    event LzReceiveAlert(
        address indexed receiver,
        address indexed executor,
        Origin origin,
        bytes32 guid,
        uint256 gas,
        uint256 value,
        bytes message,
        bytes extraData,
        bytes reason
    );
    event ComposeSent(address from, address to, bytes32 guid, uint16 index, bytes message);

    error LZ_InsufficientFee(
        uint256 requiredNative,
        uint256 suppliedNative,
        uint256 requiredLzToken,
        uint256 suppliedLzToken
    );
    error LZ_InvalidNonce(uint64 nonce);
    error LZ_InvalidPayloadHash();
    error LZ_InvalidReceiveLibrary();
    error LZ_LzTokenUnavailable();
    error LZ_PathNotInitializable();
    error LZ_PathNotVerifiable();
    error LZ_PayloadHashNotFound(bytes32 expected, bytes32 actual);
    error LZ_ComposeExists();
    error LZ_ULN_InvalidWorkerOptions(uint256 cursor);
    error TransferNativeFailed();

    uint8 private constant PACKET_VERSION = 1;

    uint32 public immutable eid;
    /// The only account whose word makes an inbound packet verified.
    address public immutable verifier;
    /// Wei for one message, whatever its size and destination.
    uint256 public nativeFee;

    mapping(address sender => mapping(uint32 dstEid => mapping(bytes32 receiver => uint64)))
        public outboundNonce;
    /// The highest nonce delivered so far; every packet up to it was verified or delivered.
    mapping(address receiver => mapping(uint32 srcEid => mapping(bytes32 sender => uint64)))
        public lazyInboundNonce;
    mapping(
        address receiver
            => mapping(uint32 srcEid => mapping(bytes32 sender => mapping(uint64 nonce => bytes32)))
    ) public inboundPayloadHash;
    mapping(
        address from
            => mapping(address to => mapping(bytes32 guid => mapping(uint16 index => bytes32)))
    ) public composeQueue;

    constructor(uint32 eid_, address verifier_, uint256 nativeFee_) {
        eid = eid_;
        verifier = verifier_;
        nativeFee = nativeFee_;
    }

    function setNativeFee(uint256 nativeFee_) external onlyOwner {
        nativeFee = nativeFee_;
    }

    function quote(MessagingParams calldata params, address)
        external
        view
        override
        returns (MessagingFee memory)
    {
        _checkParams(params);
        return MessagingFee(nativeFee, 0);
    }

    function send(MessagingParams calldata params, address refundAddress)
        external
        payable
        override
        returns (MessagingReceipt memory)
    {
        _checkParams(params);
        uint64 nonce = ++outboundNonce[msg.sender][params.dstEid][params.receiver];
        bytes32 guid = _guid(nonce, msg.sender, params.dstEid, params.receiver);
        bytes memory packet = abi.encodePacked(
            PACKET_VERSION,
            nonce,
            eid,
            _word(msg.sender),
            params.dstEid,
            params.receiver,
            guid,
            params.message
        );
        // The library is part of this contract, so the endpoint names itself as the library.
        emit PacketSent(packet, params.options, address(this));
        _takeFee(refundAddress);
        return MessagingReceipt(guid, nonce, MessagingFee(nativeFee, 0));
    }

    /// Records what the verifier saw on the other chain. Any nonce above the delivered ones may be
    /// verified, in any order.
    function verify(Origin calldata origin, address receiver, bytes32 payloadHash) external {
        if (msg.sender != verifier) revert LZ_InvalidReceiveLibrary();
        uint64 lazyNonce = lazyInboundNonce[receiver][origin.srcEid][origin.sender];
        if (lazyNonce == 0 && !MessagingReceiver(receiver).allowInitializePath(origin)) {
            revert LZ_PathNotInitializable();
        }
        bool known = _payloadHash(receiver, origin, origin.nonce) != bytes32(0);
        if (origin.nonce <= lazyNonce && !known) revert LZ_PathNotVerifiable();
        if (payloadHash == bytes32(0)) revert LZ_InvalidPayloadHash();
        inboundPayloadHash[receiver][origin.srcEid][origin.sender][origin.nonce] = payloadHash;
        emit PacketVerified(origin, receiver, payloadHash);
    }

    /// Delivers a verified packet; open to anyone. A reverting receiver leaves the packet verified,
    /// so that a later call can deliver it.
    function lzReceive(
        Origin calldata origin,
        address receiver,
        bytes32 guid,
        bytes calldata message,
        bytes calldata extraData
    ) external payable {
        _clear(receiver, origin, keccak256(abi.encodePacked(guid, message)));
        MessagingReceiver(receiver).lzReceive{value: msg.value}(
            origin, guid, message, msg.sender, extraData
        );
        emit PacketDelivered(origin, receiver);
    }

    /// A note from whoever calls it that a delivery failed. Open to anyone, so never a proof.
    function lzReceiveAlert(
        Origin calldata origin,
        address receiver,
        bytes32 guid,
        uint256 gas,
        uint256 value,
        bytes calldata message,
        bytes calldata extraData,
        bytes calldata reason
    ) external {
        emit LzReceiveAlert(
            receiver, msg.sender, origin, guid, gas, value, message, extraData, reason
        );
    }

    /// Queues a composed message. Nothing on the development network executes the queue.
    function sendCompose(address to, bytes32 guid, uint16 index, bytes calldata message)
        external
        override
    {
        if (composeQueue[msg.sender][to][guid][index] != bytes32(0)) revert LZ_ComposeExists();
        composeQueue[msg.sender][to][guid][index] = keccak256(message);
        emit ComposeSent(msg.sender, to, guid, index, message);
    }

    function nextGuid(address sender, uint32 dstEid, bytes32 receiver)
        external
        view
        returns (bytes32)
    {
        return _guid(outboundNonce[sender][dstEid][receiver] + 1, sender, dstEid, receiver);
    }

    /// The highest nonce up to which every packet is verified or delivered.
    function inboundNonce(address receiver, uint32 srcEid, bytes32 sender)
        external
        view
        returns (uint64 nonce)
    {
        nonce = lazyInboundNonce[receiver][srcEid][sender];
        while (inboundPayloadHash[receiver][srcEid][sender][nonce + 1] != bytes32(0)) nonce++;
    }

    function _clear(address receiver, Origin calldata origin, bytes32 actual) private {
        uint64 lazyNonce = lazyInboundNonce[receiver][origin.srcEid][origin.sender];
        if (origin.nonce > lazyNonce) {
            for (uint64 nonce = lazyNonce + 1; nonce <= origin.nonce; nonce++) {
                if (_payloadHash(receiver, origin, nonce) == bytes32(0)) {
                    revert LZ_InvalidNonce(nonce);
                }
            }
            lazyInboundNonce[receiver][origin.srcEid][origin.sender] = origin.nonce;
        }
        bytes32 expected = _payloadHash(receiver, origin, origin.nonce);
        if (expected != actual) revert LZ_PayloadHashNotFound(expected, actual);
        delete inboundPayloadHash[receiver][origin.srcEid][origin.sender][origin.nonce];
    }

    function _payloadHash(address receiver, Origin calldata origin, uint64 nonce)
        private
        view
        returns (bytes32)
    {
        return inboundPayloadHash[receiver][origin.srcEid][origin.sender][nonce];
    }

    function _checkParams(MessagingParams calldata params) private pure {
        if (params.payInLzToken) revert LZ_LzTokenUnavailable();
        // Without options the executor is asked for nothing and the message could never run.
        if (params.options.length < 2) revert LZ_ULN_InvalidWorkerOptions(0);
    }

    function _takeFee(address refundAddress) private {
        if (msg.value < nativeFee) revert LZ_InsufficientFee(nativeFee, msg.value, 0, 0);
        if (msg.value == nativeFee) return;
        (bool sent,) = refundAddress.call{value: msg.value - nativeFee}("");
        if (!sent) revert TransferNativeFailed();
    }

    function _guid(uint64 nonce, address sender, uint32 dstEid, bytes32 receiver)
        private
        view
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(nonce, eid, _word(sender), dstEid, receiver));
    }

    function _word(address account) private pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }
}
