// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// When it is paid, it calls what it was told to, and remembers whether that call went through.
contract CallingBack {
    address private target;
    bytes private call;
    bool public called;
    bool public succeeded;

    function plant(address target_, bytes calldata call_) external {
        (target, call) = (target_, call_);
    }

    receive() external payable {
        called = true;
        (succeeded,) = target.call(call);
    }
}
