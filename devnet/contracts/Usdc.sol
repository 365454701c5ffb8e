// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Erc20} from "./Erc20.sol";
import {Pausable} from "./Owned.sol";

/// USDC as the bridge and its users see it: minters with allowances, a blacklist, a pause, and logs in the
/// order of the real token (Mint before its Transfer, Burn before its Transfer).
contract Usdc is Erc20("USD Coin", "USDC"), Pausable {
    event Mint(address indexed minter, address indexed to, uint256 amount);
    event Burn(address indexed burner, uint256 amount);
    event MinterConfigured(address indexed minter, uint256 minterAllowedAmount);
    event Blacklisted(address indexed account);
    event UnBlacklisted(address indexed account);

    mapping(address => bool) public isMinter;
    mapping(address => uint256) public minterAllowance;
    mapping(address => bool) public isBlacklisted;

    modifier onlyMinters() {
        require(isMinter[msg.sender], "FiatToken: caller is not a minter");
        _;
    }

    function configureMinter(address minter, uint256 allowedAmount)
        external
        onlyOwner
        returns (bool)
    {
        isMinter[minter] = true;
        minterAllowance[minter] = allowedAmount;
        emit MinterConfigured(minter, allowedAmount);
        return true;
    }

    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    function unBlacklist(address account) external onlyOwner {
        isBlacklisted[account] = false;
        emit UnBlacklisted(account);
    }

    function mint(address to, uint256 amount)
        external
        whenNotPaused
        onlyMinters
        returns (bool)
    {
        _authorize(msg.sender);
        _authorize(to);
        require(to != address(0), "FiatToken: mint to the zero address");
        require(amount > 0, "FiatToken: mint amount not greater than 0");
        uint256 allowed = minterAllowance[msg.sender];
        require(amount <= allowed, "FiatToken: mint amount exceeds minterAllowance");
        minterAllowance[msg.sender] = allowed - amount;
        emit Mint(msg.sender, to, amount);
        _create(to, amount);
        return true;
    }

    function burn(uint256 amount) external onlyMinters {
        _authorize(msg.sender);
        require(amount > 0, "FiatToken: burn amount not greater than 0");
        require(amount <= balanceOf[msg.sender], "FiatToken: burn amount exceeds balance");
        emit Burn(msg.sender, amount);
        _destroy(msg.sender, amount);
    }

    function _authorize(address account) internal view override {
        require(!isBlacklisted[account], "Blacklistable: account is blacklisted");
    }
}
