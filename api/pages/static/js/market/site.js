// @ts-check
/**
 * What the server writes into the page: the network, its chain, its contract.
 */

import { byId } from "../shared/dom.js";

/** @param {string} name of a data attribute of the main element, as the script has it */
function read(name) {
  return byId("main").dataset[name] ?? "";
}

/** Empty where the network has no order book. */
export const ESCROW = {
  network: read("network"),
  passphrase: read("passphrase"),
  contract: read("escrow"),
};

/** The chain of the market, CAIP-2. */
export const CHAIN = read("chain");
