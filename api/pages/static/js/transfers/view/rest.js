// @ts-check
/**
 * What came back, and what anyone needs to deliver a transfer without the service.
 */

import { chainName } from "../../shared/chains.js";
import { make } from "../../shared/dom.js";
import { copyable, reference } from "../../shared/parts.js";
import { decimalsOf, formatAmount, formatCoin } from "../core/amounts.js";
import { facts } from "./parts.js";

/** @typedef {import("../client/api.js").Transfer} Transfer */

/**
 * Each token at the deposit address: received = moved on + returned + held.
 *
 * @param {Transfer} transfer
 * @param {string} coin
 * @returns {HTMLElement[]}
 */
export function refundRows({ refund, source_address, source_chain }, coin) {
  if (refund === null) return [];
  const decimals = decimalsOf(source_chain);
  const waits = refund.pending_below_minimum;
  /** @type {[string, string | Node][]} */
  const sums = [
    ["Refunds go to", make("code", { class: "address" }, source_address)],
    ["Refunded", formatCoin(refund.amount, source_chain, coin)],
  ];
  if (waits !== "0")
    sums.push(["Too little to return alone", formatCoin(waits, source_chain, coin)]);
  for (const tx of refund.transactions)
    sums.push(["Refund", reference(source_chain, tx, "Transaction")]);
  const lines = refund.tokens.map(({ token, received, swept, returned, owed }) =>
    facts([
      ["Token", make("code", { class: "address" }, token)],
      ["Received", formatAmount(received, decimals)],
      ["Moved on", formatAmount(swept, decimals)],
      ["Returned", formatAmount(returned, decimals)],
      ["To be returned", formatAmount(owed, decimals)],
    ]),
  );
  return [facts(sums), ...lines];
}

/**
 * Message and attestation of the transfer and of its extras.
 *
 * @param {Transfer} transfer
 * @returns {HTMLElement[]}
 */
export function selfFinish({ self_finish, extras_self_finish }) {
  const own = self_finish === null ? [] : [self_finish];
  return [...own, ...extras_self_finish].map(({ chain, contract, message, attestation }) => {
    const call = chain.startsWith("stellar:") ? "mint_and_forward" : "receiveMessage";
    return facts([
      ["Chain", chainName(chain)],
      ["Contract", copyable(contract, "the contract")],
      ["Function", make("code", {}, `${call}(message, attestation)`)],
      ["Message", copyable(message, "the message")],
      ["Attestation", copyable(attestation, "the attestation")],
    ]);
  });
}
