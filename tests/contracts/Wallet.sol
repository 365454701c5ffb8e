// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

struct Call {
    address to;
    bytes data;
    uint256 value;
}

/// A smart wallet as bridges see one: whoever sends the transaction, the wallet is who calls, and
/// one transaction may hold the calls of many. It keeps what is refunded to it.
contract Wallet {
    function execute(Call[] calldata calls) external payable {
        for (uint256 i = 0; i < calls.length; i++) {
            (bool ok,) = calls[i].to.call{value: calls[i].value}(calls[i].data);
            require(ok, "call failed");
        }
    }

    receive() external payable {}
}
