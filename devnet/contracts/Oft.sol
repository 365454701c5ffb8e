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

interface BurnableToken {
    function totalSupply() external view returns (uint256);

    function mint(address to, uint256 amount) external;

    function burn(address from, uint256 amount) external;
}

struct SendParam {
    uint32 dstEid;
    bytes32 to;
    uint256 amountLD;
    uint256 minAmountLD;
    bytes extraOptions;
    bytes composeMsg;
    bytes oftCmd;
}

struct OFTLimit {
    uint256 minAmountLD;
    uint256 maxAmountLD;
}

struct OFTFeeDetail {
    int256 feeAmountLD;
    string description;
}

struct OFTReceipt {
    uint256 amountSentLD;
    uint256 amountReceivedLD;
}

struct EnforcedOptionParam {
    uint32 eid;
    uint16 msgType;
    bytes options;
}

/// LayerZero V2 OFT over a separate token of six decimals: burns on send, mints on receive.
/// Local and shared decimals are equal, so there is never dust.
///
/// Message, big-endian: sendTo 0:32, amountSD 32:40, and when composed composeFrom 40:72,
/// composeMsg 72:.
contract Oft is Owned, MessagingReceiver {
    event OFTSent(
        bytes32 indexed guid,
        uint32 dstEid,
        address indexed fromAddress,
        uint256 amountSentLD,
        uint256 amountReceivedLD
    );
    event OFTReceived(
        bytes32 indexed guid, uint32 srcEid, address indexed toAddress, uint256 amountReceivedLD
    );
    event PeerSet(uint32 eid, bytes32 peer);
    event EnforcedOptionSet(EnforcedOptionParam[] _enforcedOptions);

    error AmountSDOverflowed(uint256 amountSD);
    error InvalidOptions(bytes options);
    error LzTokenUnavailable();
    error NoPeer(uint32 eid);
    error NotEnoughNative(uint256 msgValue);
    error OnlyEndpoint(address addr);
    error OnlyPeer(uint32 eid, bytes32 sender);
    error SlippageExceeded(uint256 amountLD, uint256 minAmountLD);

    uint16 public constant SEND = 1;
    uint16 public constant SEND_AND_CALL = 2;
    uint8 public constant sharedDecimals = 6;
    uint256 public constant decimalConversionRate = 1;
    bool public constant approvalRequired = false;
    uint16 private constant OPTIONS_TYPE_3 = 3;
    uint256 private constant PLAIN_MESSAGE_SIZE = 40;

    address public immutable token;
    MessagingEndpoint public immutable endpoint;
    mapping(uint32 eid => bytes32) public peers;
    mapping(uint32 eid => mapping(uint16 msgType => bytes)) public enforcedOptions;

    constructor(address token_, MessagingEndpoint endpoint_) {
        token = token_;
        endpoint = endpoint_;
    }

    function setPeer(uint32 eid, bytes32 peer) external onlyOwner {
        peers[eid] = peer;
        emit PeerSet(eid, peer);
    }

    function setEnforcedOptions(EnforcedOptionParam[] calldata params) external onlyOwner {
        for (uint256 i = 0; i < params.length; i++) {
            _checkOptionsType3(params[i].options);
            enforcedOptions[params[i].eid][params[i].msgType] = params[i].options;
        }
        emit EnforcedOptionSet(params);
    }

    /// The interface id and the version of the message encoding.
    function oftVersion() external pure returns (bytes4 interfaceId, uint64 version) {
        return (0x02e49c2c, 1);
    }

    function quoteOFT(SendParam calldata sendParam)
        external
        view
        returns (OFTLimit memory, OFTFeeDetail[] memory, OFTReceipt memory)
    {
        uint256 amountLD = _checkedAmount(sendParam);
        return (
            OFTLimit(0, BurnableToken(token).totalSupply()),
            new OFTFeeDetail[](0),
            OFTReceipt(amountLD, amountLD)
        );
    }

    function quoteSend(SendParam calldata sendParam, bool payInLzToken)
        external
        view
        returns (MessagingFee memory)
    {
        uint256 amountLD = _checkedAmount(sendParam);
        return endpoint.quote(_messagingParams(sendParam, amountLD, payInLzToken), address(this));
    }

    function send(SendParam calldata sendParam, MessagingFee calldata fee, address refundAddress)
        external
        payable
        returns (MessagingReceipt memory messagingReceipt, OFTReceipt memory oftReceipt)
    {
        uint256 amountLD = _checkedAmount(sendParam);
        BurnableToken(token).burn(msg.sender, amountLD);
        if (msg.value != fee.nativeFee) revert NotEnoughNative(msg.value);
        if (fee.lzTokenFee > 0) revert LzTokenUnavailable();
        messagingReceipt = endpoint.send{value: msg.value}(
            _messagingParams(sendParam, amountLD, false), refundAddress
        );
        oftReceipt = OFTReceipt(amountLD, amountLD);
        emit OFTSent(messagingReceipt.guid, sendParam.dstEid, msg.sender, amountLD, amountLD);
    }

    function lzReceive(
        Origin calldata origin,
        bytes32 guid,
        bytes calldata message,
        address,
        bytes calldata
    ) external payable override {
        if (msg.sender != address(endpoint)) revert OnlyEndpoint(msg.sender);
        if (_peer(origin.srcEid) != origin.sender) revert OnlyPeer(origin.srcEid, origin.sender);
        address to = address(uint160(uint256(bytes32(message[0:32]))));
        uint256 amountLD = uint64(bytes8(message[32:40]));
        // The zero address cannot be minted to; a refusal here would block the path for ever.
        BurnableToken(token).mint(to == address(0) ? address(0xdead) : to, amountLD);
        if (message.length > PLAIN_MESSAGE_SIZE) {
            bytes memory composed = abi.encodePacked(
                origin.nonce, origin.srcEid, amountLD, message[PLAIN_MESSAGE_SIZE:]
            );
            endpoint.sendCompose(to, guid, 0, composed);
        }
        emit OFTReceived(guid, origin.srcEid, to, amountLD);
    }

    function allowInitializePath(Origin calldata origin) external view override returns (bool) {
        return peers[origin.srcEid] == origin.sender;
    }

    /// Enforced options first, then the caller's extra ones without their two type bytes.
    function combineOptions(uint32 eid, uint16 msgType, bytes calldata extraOptions)
        public
        view
        returns (bytes memory)
    {
        bytes memory enforced = enforcedOptions[eid][msgType];
        if (enforced.length == 0) return extraOptions;
        if (extraOptions.length == 0) return enforced;
        _checkOptionsType3(extraOptions);
        return abi.encodePacked(enforced, extraOptions[2:]);
    }

    function _messagingParams(SendParam calldata sendParam, uint256 amountLD, bool payInLzToken)
        private
        view
        returns (MessagingParams memory)
    {
        bool composed = sendParam.composeMsg.length > 0;
        bytes memory message = composed
            ? abi.encodePacked(
                sendParam.to,
                uint64(amountLD),
                bytes32(uint256(uint160(msg.sender))),
                sendParam.composeMsg
            )
            : abi.encodePacked(sendParam.to, uint64(amountLD));
        return MessagingParams(
            sendParam.dstEid,
            _peer(sendParam.dstEid),
            message,
            combineOptions(
                sendParam.dstEid, composed ? SEND_AND_CALL : SEND, sendParam.extraOptions
            ),
            payInLzToken
        );
    }

    /// What leaves and what arrives: the same, because shared and local decimals are equal.
    function _checkedAmount(SendParam calldata sendParam) private pure returns (uint256 amountLD) {
        amountLD = sendParam.amountLD;
        if (amountLD < sendParam.minAmountLD) {
            revert SlippageExceeded(amountLD, sendParam.minAmountLD);
        }
        if (amountLD > type(uint64).max) revert AmountSDOverflowed(amountLD);
    }

    function _peer(uint32 eid) private view returns (bytes32 peer) {
        peer = peers[eid];
        if (peer == bytes32(0)) revert NoPeer(eid);
    }

    function _checkOptionsType3(bytes calldata options) private pure {
        if (options.length < 2 || uint16(bytes2(options[0:2])) != OPTIONS_TYPE_3) {
            revert InvalidOptions(options);
        }
    }
}
