// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// The account behind a deposit address. It does what its factory says, and nothing for anybody
/// else: it has no owner, no storage, no delegatecall, no selfdestruct and no way to change.
///
/// What it can ever be told is written in `DepositFactory` alone, which has no owner either. So it
/// stays small: a deposit is at most some dollars, and each byte of code is paid for at each
/// address. Its creation code is the same for every deposit; the terms are in the salt.
///
/// It takes no native coin from anyone but its factory: a payment by mistake bounces. What came
/// before there was code here, or was forced in, `DepositFactory.refundNative` gives back.
contract DepositForwarder {
    error OnlyFactory();

    address private immutable factory = msg.sender;

    /// Call data: the target in 20 bytes, the value in 32, and what to call it with. Answers as the
    /// target does, and reverts with its reason.
    fallback() external payable {
        if (msg.sender != factory) revert OnlyFactory();
        // Memory is all this call's own: nothing of Solidity's runs after it.
        assembly {
            let size := sub(calldatasize(), 52)
            calldatacopy(0, 52, size)
            let done := call(gas(), shr(96, calldataload(0)), calldataload(20), 0, size, 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(done) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }
}
