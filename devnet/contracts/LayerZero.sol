// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// The structs and calls that an OFT and its endpoint share. Their member types and order decide
/// function selectors and event topics, so they are LayerZero V2's exactly.

struct Origin {
    uint32 srcEid;
    bytes32 sender;
    uint64 nonce;
}

struct MessagingFee {
    uint256 nativeFee;
    uint256 lzTokenFee;
}

struct MessagingReceipt {
    bytes32 guid;
    uint64 nonce;
    MessagingFee fee;
}

struct MessagingParams {
    uint32 dstEid;
    bytes32 receiver;
    bytes message;
    bytes options;
    bool payInLzToken;
}

interface MessagingEndpoint {
    function quote(MessagingParams calldata params, address sender)
        external
        view
        returns (MessagingFee memory);

    function send(MessagingParams calldata params, address refundAddress)
        external
        payable
        returns (MessagingReceipt memory);

    function sendCompose(address to, bytes32 guid, uint16 index, bytes calldata message) external;
}

interface MessagingReceiver {
    function allowInitializePath(Origin calldata origin) external view returns (bool);

    function lzReceive(
        Origin calldata origin,
        bytes32 guid,
        bytes calldata message,
        address executor,
        bytes calldata extraData
    ) external payable;
}
