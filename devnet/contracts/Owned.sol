// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// One owner, fixed at deployment: the account that sets up the development network.
abstract contract Owned {
    address public immutable owner = msg.sender;

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }
}

/// An owner's stop switch, with the events of Circle's Pausable.
abstract contract Pausable is Owned {
    event Pause();
    event Unpause();

    bool public paused;

    modifier whenNotPaused() {
        require(!paused, "Pausable: paused");
        _;
    }

    function pause() external onlyOwner {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyOwner {
        paused = false;
        emit Unpause();
    }
}
