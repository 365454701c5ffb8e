// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {MessagingFee, Oft, SendParam, Token, TokenMessengerV2} from "./Bridges.sol";
import {DepositForwarder} from "./DepositForwarder.sol";

/// Deposit addresses whose money can go to one Stellar account, or back, and nowhere else.
///
/// A deposit address is the CREATE2 address of a `DepositForwarder`. Its salt is the hash of all
/// that was promised (`Terms` and a route), so the address itself is the promise: whoever knows the
/// terms computes it without asking anybody, and other terms are another address. Money is sent to
/// it before there is code; the first call that moves it puts the code there.
///
/// What may happen to the money of an address:
///
///   burn    the quoted amount, through CCTP, to the owner of the terms
///   send    the quoted amount, through the OFT, to the owner of the terms
///   refund  all of a token, to `refundTo` of the terms
///
/// A route is a CCTP route or an OFT route, and its hash says which: an address has either `burn` or
/// `send`. There is nothing else: no owner, no pause, no upgrade, no delegatecall, no call with a
/// target or an amount of the caller's choice. This contract has no storage and holds nothing, so
/// there is no state that a callback could find half-changed: each call stands by itself, and what a
/// callback may do inside it, it may do outside it as well.
///
/// Who may call, and what callers choose:
///
/// - The operator of the terms may call all three at any time. It chooses the native fee of a
///   message, which it pays, and of a burn the finality and a fee up to `amount - minReceived`. A
///   stolen operator key can deliver a deposit or return it, each to where it belongs. It cannot
///   take anything, nor make less arrive than was promised.
/// - Anybody may call `refund` and `refundNative` from `RELEASE_AFTER` after `expiresAt` on. So an
///   operator who is gone, or has lost the key, cannot keep what was paid in.
/// - Nobody else may call anything. If anybody could refund at any time, one cheap transaction
///   would turn each deposit away before it is burned. If anybody could burn, a deposit that was
///   cancelled, or paid twice, would be delivered against its payer's word.
///
/// `burn` and `send` move exactly `amount`: less in the address is not yet the deposit and cannot be
/// moved on in pieces, more is the payer's and goes back by `refund`. They refuse any chain but that
/// of the terms; `refund` does not, because this contract has the same address on every chain that
/// it was deployed on: what was paid on a wrong one can be returned there.
///
/// One caller's terms are as good as another's here. Anybody may make up terms with any
/// `transferId` and move money of their own through their address: an event is a deposit's only if
/// its depositor or `deposit` is that deposit's address.
contract DepositFactory {
    struct Terms {
        /// Where `burn` and `send` work (EIP-155).
        uint256 chainId;
        address token;
        /// Base units of `token`.
        uint256 amount;
        /// The least that arrives, in base units of `token`: the rest is the most that fees take.
        uint256 minReceived;
        bytes16 transferId;
        /// Whom refunds go to.
        address refundTo;
        address operator;
        /// Unix seconds.
        uint64 expiresAt;
    }

    struct CctpRoute {
        address tokenMessenger;
        uint32 domain;
        /// The remote contract that mints and passes on: recipient of the mint, and its only caller.
        bytes32 forwarder;
        /// The owner as text (a Stellar strkey in ASCII): whom the remote contract passes on to.
        bytes recipient;
    }

    struct OftRoute {
        address oft;
        uint32 eid;
        /// The owner as 32 bytes (the key inside a Stellar strkey).
        bytes32 recipient;
    }

    /// `amount` of `token` (the zero address: the native coin) went from a deposit address to the
    /// `refundTo` of its terms. A token that lies about balances lies here too.
    event Refunded(address indexed deposit, address indexed token, address refundTo, uint256 amount);

    error FeeAboveTerms(uint256 maxFee, uint256 allowed);
    error NoCode(address target);
    error NotOperator();
    error NotReleased(uint256 releasedAt);
    error NothingToRefund();
    error TokenRefused();
    error WrongChain(uint256 chainId);
    error ZeroRefundAddress();

    /// Seconds after `expiresAt` from which on anybody may refund. Long enough for a payment of the
    /// last moment to become final and be burned, after a bad day of the operator's.
    uint256 public constant RELEASE_AFTER = 1 days;
    bytes32 public constant FORWARDER_CODE_HASH = keccak256(type(DepositForwarder).creationCode);

    /// Burns the deposit through CCTP, towards the owner. Reverts while less than `amount` is there.
    ///
    /// `maxFee` is in base units of the token. Bytes of the hook: 24 of zeros (nobody is asked to
    /// relay, who could take all of `maxFee`), version 0, length, recipient, and the transfer's id.
    function burn(
        Terms calldata terms,
        CctpRoute calldata route,
        uint256 maxFee,
        uint32 minFinalityThreshold
    ) external {
        _requireOperator(terms);
        uint256 allowed = terms.amount - terms.minReceived;
        if (maxFee > allowed) revert FeeAboveTerms(maxFee, allowed);
        address forwarder = _forwarder(terms, cctpRouteHash(route));
        _approve(forwarder, terms, route.tokenMessenger);
        bytes memory call = _burnCall(terms, route, maxFee, minFinalityThreshold);
        _call(forwarder, route.tokenMessenger, 0, call);
    }

    /// Sends the deposit through the OFT, towards the owner. Reverts while less than `amount` is
    /// there. The call's value pays the message; the endpoint returns what is too much to the caller.
    function send(Terms calldata terms, OftRoute calldata route) external payable {
        _requireOperator(terms);
        address forwarder = _forwarder(terms, oftRouteHash(route));
        if (Oft(route.oft).approvalRequired()) _approve(forwarder, terms, route.oft);
        SendParam memory param =
            SendParam(route.eid, route.recipient, terms.amount, terms.minReceived, "", "", "");
        MessagingFee memory fee = MessagingFee(msg.value, 0);
        bytes memory call = abi.encodeCall(Oft.send, (param, fee, msg.sender));
        _call(forwarder, route.oft, msg.value, call);
    }

    /// Returns all of a token: the deposit's, or another that came here by mistake.
    function refund(Terms calldata terms, bytes32 routeHash, address token) external {
        _requireRefundable(terms);
        address forwarder = _forwarder(terms, routeHash);
        uint256 amount = Token(token).balanceOf(forwarder);
        if (amount == 0) revert NothingToRefund();
        bytes memory call = abi.encodeCall(Token.transfer, (terms.refundTo, amount));
        _requireTrue(_call(forwarder, token, 0, call));
        emit Refunded(forwarder, token, terms.refundTo, amount);
    }

    /// Returns all of the native coin that came here by mistake.
    function refundNative(Terms calldata terms, bytes32 routeHash) external {
        _requireRefundable(terms);
        address forwarder = _forwarder(terms, routeHash);
        uint256 amount = forwarder.balance;
        if (amount == 0) revert NothingToRefund();
        _tell(forwarder, 0, abi.encodePacked(terms.refundTo, amount));
        emit Refunded(forwarder, address(0), terms.refundTo, amount);
    }

    /// Where a deposit on these terms is to be paid.
    function addressOf(Terms calldata terms, bytes32 routeHash) external view returns (address) {
        return _addressOf(_salt(terms, routeHash));
    }

    function cctpRouteHash(CctpRoute calldata route) public pure returns (bytes32) {
        return keccak256(abi.encode("cctp", route));
    }

    function oftRouteHash(OftRoute calldata route) public pure returns (bytes32) {
        return keccak256(abi.encode("oft", route));
    }

    function _requireOperator(Terms calldata terms) private view {
        if (msg.sender != terms.operator) revert NotOperator();
        if (block.chainid != terms.chainId) revert WrongChain(terms.chainId);
    }

    function _requireRefundable(Terms calldata terms) private view {
        // Many tokens would burn what is sent there, and the native coin would be gone.
        if (terms.refundTo == address(0)) revert ZeroRefundAddress();
        uint256 releasedAt = terms.expiresAt + RELEASE_AFTER;
        if (msg.sender != terms.operator && block.timestamp < releasedAt) {
            revert NotReleased(releasedAt);
        }
    }

    /// The forwarder on these terms; its code is put there if nothing was ever moved from it.
    function _forwarder(Terms calldata terms, bytes32 routeHash)
        private
        returns (address forwarder)
    {
        bytes32 salt = _salt(terms, routeHash);
        forwarder = _addressOf(salt);
        if (forwarder.code.length == 0) new DepositForwarder{salt: salt}();
    }

    function _salt(Terms calldata terms, bytes32 routeHash) private pure returns (bytes32) {
        return keccak256(abi.encode(terms, routeHash));
    }

    function _addressOf(bytes32 salt) private view returns (address) {
        bytes memory preimage =
            abi.encodePacked(bytes1(0xff), address(this), salt, FORWARDER_CODE_HASH);
        return address(uint160(uint256(keccak256(preimage))));
    }

    /// The bridge takes all of it in the same call, so that an allowance never outlives one: USDT
    /// refuses to change one that is not zero.
    function _approve(address forwarder, Terms calldata terms, address spender) private {
        bytes memory call = abi.encodeCall(Token.approve, (spender, terms.amount));
        _requireTrue(_call(forwarder, terms.token, 0, call));
    }

    /// A call to an address without code would succeed and do nothing.
    function _call(address forwarder, address target, uint256 value, bytes memory call)
        private
        returns (bytes memory)
    {
        if (target.code.length == 0) revert NoCode(target);
        return _tell(forwarder, value, abi.encodePacked(target, value, call));
    }

    function _tell(address forwarder, uint256 paid, bytes memory order)
        private
        returns (bytes memory)
    {
        (bool done, bytes memory answer) = forwarder.call{value: paid}(order);
        if (done) return answer;
        assembly ("memory-safe") {
            revert(add(answer, 32), mload(answer))
        }
    }

    /// A token says no by reverting or by `false`; one that returns nothing has said yes.
    function _requireTrue(bytes memory answer) private pure {
        if (answer.length > 0 && !abi.decode(answer, (bool))) revert TokenRefused();
    }

    function _burnCall(
        Terms calldata terms,
        CctpRoute calldata route,
        uint256 maxFee,
        uint32 minFinalityThreshold
    ) private pure returns (bytes memory) {
        bytes memory hook = abi.encodePacked(
            bytes24(0),
            uint32(0),
            uint32(route.recipient.length),
            route.recipient,
            terms.transferId
        );
        return abi.encodeCall(
            TokenMessengerV2.depositForBurnWithHook,
            (
                terms.amount,
                route.domain,
                route.forwarder,
                terms.token,
                route.forwarder,
                maxFee,
                minFinalityThreshold,
                hook
            )
        );
    }
}
