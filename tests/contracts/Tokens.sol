// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// Tokens that are not as they should be, each in one way. Anybody may mint.
abstract contract Coin {
    uint8 public constant decimals = 6;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function _move(address from, address to, uint256 value) internal {
        require(value <= balanceOf[from], "balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
    }

    function _spend(address from, uint256 value) internal {
        require(value <= allowance[from][msg.sender], "allowance");
        allowance[from][msg.sender] -= value;
    }
}

/// As USDT on Ethereum: returns nothing, and changes an allowance only from or to zero.
contract SilentCoin is Coin {
    function approve(address spender, uint256 value) external {
        require(value == 0 || allowance[msg.sender][spender] == 0, "approve from zero");
        allowance[msg.sender][spender] = value;
    }

    function transfer(address to, uint256 value) external {
        _move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        _spend(from, value);
        _move(from, to, value);
    }
}

/// Says no by returning false, and does nothing.
contract RefusingCoin is Coin {
    function approve(address, uint256) external pure returns (bool) {
        return false;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return false;
    }
}

/// Takes one in a hundred more from the sender than what is sent.
contract FeeOnTopCoin is Coin {
    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, address(0xfee), value / 100);
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        _spend(from, value);
        _move(from, address(0xfee), value / 100);
        _move(from, to, value);
        return true;
    }
}

/// Calls what it was told to while it is being moved, as an attacker's token may, and remembers
/// whether that call went through.
contract CallbackCoin is Coin {
    address private target;
    bytes private call;
    bool public called;
    bool public succeeded;

    function plant(address target_, bytes calldata call_) external {
        (target, call) = (target_, call_);
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        called = true;
        (succeeded,) = target.call(call);
        return true;
    }
}
