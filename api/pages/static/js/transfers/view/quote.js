// @ts-check
/**
 * A quote's figures, and what a missing trustline means for its owner.
 */

import { chainName } from "../../shared/chains.js";
import { formatAmount, formatCoin, nativeDecimalsOf } from "../core/amounts.js";
import { FEES, UNSPONSORED } from "../core/words.js";
import { facts } from "./parts.js";

/** @typedef {import("../client/api.js").Quote} Quote */
/** @typedef {import("../client/api.js").NativeFee} NativeFee */

/**
 * @param {Quote} quote
 * @param {string} coin
 * @param {string} source CAIP-2
 * @param {string} dest CAIP-2
 * @param {string} time how long it takes; empty: not known
 */
export function quoteFacts(quote, coin, source, dest, time) {
  const { details, native_details, operator_details } = quote.fee;
  return facts([
    ["You send", formatCoin(quote.sell_amount, source, coin)],
    ...details.map(({ name, amount }) => row(name, formatCoin(amount, source, coin))),
    ["Arrives at least", formatCoin(quote.buy_amount, dest, coin)],
    ...(time === "" ? [] : [row("Time", time)]),
    ["Price", `${quote.price} ${coin} for 1 ${coin} sent`],
    ...native_details.map((fee) => row(fee.name, nativeFee(fee))),
    ...operator_details.map((fee) => row(fee.name, `${nativeFee(fee)}, paid by the service`)),
  ]);
}

/**
 * @param {string} name
 * @param {string} amount
 * @returns {[string, string]}
 */
function row(name, amount) {
  return [FEES[name] ?? name, amount];
}

/** @param {NativeFee} fee */
function nativeFee({ amount, chain }) {
  const unit = chain.startsWith("stellar:") ? "XLM" : `of ${chainName(chain)}'s coin`;
  return `${formatAmount(amount, nativeDecimalsOf(chain))} ${unit}`;
}

/**
 * What the owner has to open, and who pays for it.
 *
 * @param {import("../client/api.js").Trustline} needed
 */
export function trustlineText({ asset, creates_account, reserve, sponsored, reason }) {
  const [, code = "", issuer = ""] = asset.split(":");
  const what = creates_account
    ? `Your account is not on the ledger yet, and needs a trustline for ${code} of ${issuer}.`
    : `Your account needs a trustline for ${code} of ${issuer}.`;
  if (sponsored)
    return `${what} The service pays for it: once your deposit is final, you sign it here.`;
  const xlm = formatAmount(reserve, 7);
  const why = UNSPONSORED[reason ?? ""] ?? reason ?? "";
  return (
    `${what} Open it in your wallet, which takes ${xlm} XLM: ${why}. ` +
    "You may pay first: the delivery waits for it without a time limit."
  );
}
