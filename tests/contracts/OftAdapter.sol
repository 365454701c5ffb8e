// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

struct SendParam {
    uint32 dstEid;
    bytes32 to;
    uint256 amountLD;
    uint256 minAmountLD;
    bytes extraOptions;
    bytes composeMsg;
    bytes oftCmd;
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

struct OFTReceipt {
    uint256 amountSentLD;
    uint256 amountReceivedLD;
}

interface PulledToken {
    function transferFrom(address from, address to, uint256 value) external;
}

/// The side of LayerZero's OFTAdapter that a sender sees, as USDT0 has it on Ethereum: it pulls a
/// token it did not make, so it needs an allowance. It keeps a hundredth of what is sent as its
/// fee, and the message costs nothing.
contract OftAdapter {
    event OFTSent(
        bytes32 indexed guid,
        uint32 dstEid,
        address indexed fromAddress,
        uint256 amountSentLD,
        uint256 amountReceivedLD
    );

    error SlippageExceeded(uint256 amountLD, uint256 minAmountLD);

    bool public constant approvalRequired = true;
    address public immutable token;

    constructor(address token_) {
        token = token_;
    }

    function send(SendParam calldata sendParam, MessagingFee calldata fee, address)
        external
        payable
        returns (MessagingReceipt memory, OFTReceipt memory)
    {
        uint256 arriving = sendParam.amountLD - sendParam.amountLD / 100;
        if (arriving < sendParam.minAmountLD) {
            revert SlippageExceeded(arriving, sendParam.minAmountLD);
        }
        PulledToken(token).transferFrom(msg.sender, address(this), sendParam.amountLD);
        emit OFTSent(bytes32(0), sendParam.dstEid, msg.sender, sendParam.amountLD, arriving);
        return (
            MessagingReceipt(bytes32(0), 1, fee),
            OFTReceipt(sendParam.amountLD, arriving)
        );
    }
}
