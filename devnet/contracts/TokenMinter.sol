// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Pausable} from "./Owned.sol";

interface MintBurnToken {
    function mint(address to, uint256 amount) external returns (bool);

    function burn(uint256 amount) external;
}

/// CCTP V2 token minter: holds the minter role of the token and obeys the token messenger.
contract TokenMinter is Pausable {
    event SetBurnLimitPerMessage(address indexed token, uint256 burnLimitPerMessage);
    event TokenPairLinked(address localToken, uint32 remoteDomain, bytes32 remoteToken);

    address public immutable localTokenMessenger;
    mapping(address => uint256) public burnLimitsPerMessage;
    mapping(bytes32 => address) private localTokens;

    modifier onlyLocalTokenMessenger() {
        require(msg.sender == localTokenMessenger, "Caller not local TokenMessenger");
        _;
    }

    constructor(address localTokenMessenger_) {
        localTokenMessenger = localTokenMessenger_;
    }

    function setMaxBurnAmountPerMessage(address token, uint256 limit) external onlyOwner {
        burnLimitsPerMessage[token] = limit;
        emit SetBurnLimitPerMessage(token, limit);
    }

    function linkTokenPair(address localToken, uint32 remoteDomain, bytes32 remoteToken)
        external
        onlyOwner
    {
        localTokens[_pair(remoteDomain, remoteToken)] = localToken;
        emit TokenPairLinked(localToken, remoteDomain, remoteToken);
    }

    function getLocalToken(uint32 remoteDomain, bytes32 remoteToken) public view returns (address) {
        return localTokens[_pair(remoteDomain, remoteToken)];
    }

    /// Burns what the token messenger has just moved here.
    function burn(address token, uint256 amount) external whenNotPaused onlyLocalTokenMessenger {
        uint256 limit = burnLimitsPerMessage[token];
        require(limit > 0, "Burn token not supported");
        require(amount <= limit, "Burn amount exceeds per tx limit");
        MintBurnToken(token).burn(amount);
    }

    function mint(uint32 sourceDomain, bytes32 burnToken, address to, uint256 amount)
        external
        whenNotPaused
        onlyLocalTokenMessenger
        returns (address token)
    {
        token = _mintToken(sourceDomain, burnToken);
        require(MintBurnToken(token).mint(to, amount), "Mint operation failed");
    }

    function mint(
        uint32 sourceDomain,
        bytes32 burnToken,
        address recipientOne,
        address recipientTwo,
        uint256 amountOne,
        uint256 amountTwo
    ) external whenNotPaused onlyLocalTokenMessenger returns (address token) {
        token = _mintToken(sourceDomain, burnToken);
        require(MintBurnToken(token).mint(recipientOne, amountOne), "First mint operation failed");
        require(MintBurnToken(token).mint(recipientTwo, amountTwo), "Second mint operation failed");
    }

    function _mintToken(uint32 sourceDomain, bytes32 burnToken)
        private
        view
        returns (address token)
    {
        token = getLocalToken(sourceDomain, burnToken);
        require(token != address(0), "Mint token not supported");
    }

    function _pair(uint32 remoteDomain, bytes32 remoteToken) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(remoteDomain, remoteToken));
    }
}
