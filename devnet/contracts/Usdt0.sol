// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Erc20} from "./Erc20.sol";
import {Owned} from "./Owned.sol";

/// The token that the OFT mints and burns; the two are separate contracts, as on the real chains.
contract Usdt0 is Erc20("USDT0", "USDT0"), Owned {
    /// The OFT, and the owner as the faucet of the development network.
    mapping(address => bool) public isMinter;

    modifier onlyMinters() {
        require(isMinter[msg.sender], "Usdt0: caller is not a minter");
        _;
    }

    function setMinter(address minter, bool allowed) external onlyOwner {
        isMinter[minter] = allowed;
    }

    function mint(address to, uint256 amount) external onlyMinters {
        require(to != address(0), "ERC20: mint to the zero address");
        _create(to, amount);
    }

    /// Burns without an allowance: the OFT only ever passes its own caller as `from`.
    function burn(address from, uint256 amount) external onlyMinters {
        require(amount <= balanceOf[from], "ERC20: burn amount exceeds balance");
        _destroy(from, amount);
    }

    /// This token refuses nobody.
    function _authorize(address) internal view override {}
}
