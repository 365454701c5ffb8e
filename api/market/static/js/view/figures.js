// @ts-check
/**
 * Totals of the market, and a provider's figures.
 */

import { formatSpan } from "../core/clock.js";
import { parseUnits } from "../core/decimal.js";
import { NumberCell } from "./cells.js";
import { byId, make, setText } from "./dom.js";

/**
 * @param {import("../core/depth.js").Totals} totals
 * @param {string | null} locked as the API's summary has it
 */
export function showTotals(totals, locked) {
  showAmount("total-available", totals.available);
  if (locked !== null) showAmount("total-locked", parseUnits(locked));
  setText(byId("total-offers"), String(totals.offers));
  setText(byId("total-providers"), String(totals.providers));
}

/**
 * A provider as the API writes it.
 *
 * @typedef {object} Provider
 * @property {string} provider
 * @property {string} availableUsdc
 * @property {string} lockedUsdc
 * @property {number} completedOrders
 * @property {number} avgFulfillmentSeconds
 * @property {string[]} acceptedRails
 * @property {number} activeIntents
 */

/**
 * @param {string} address
 * @param {Provider | null} provider null while it is not known
 * @param {string} problem why it is not; empty when nothing is wrong
 */
export function showProvider(address, provider, problem) {
  setText(byId("provider-address"), address);
  setText(byId("provider-problem"), problem);
  byId("provider-figures").hidden = provider === null && problem !== "";
  showAmount("provider-available", provider && parseUnits(provider.availableUsdc));
  showAmount("provider-locked", provider && parseUnits(provider.lockedUsdc));
  const figures = {
    completed: provider && String(provider.completedOrders),
    span: provider && describeMean(provider),
    active: provider && String(provider.activeIntents),
  };
  for (const [name, text] of Object.entries(figures))
    setText(byId(`provider-${name}`), text ?? "–");
  const rails = provider?.acceptedRails ?? [];
  if (rails.length === 0) setText(byId("provider-rails"), provider ? "none" : "–");
  else
    byId("provider-rails").replaceChildren(
      ...rails.map((rail) => make("span", { class: "rail" }, rail)),
    );
}

/**
 * @param {string} id
 * @param {bigint | null} units null while it is not known
 */
function showAmount(id, units) {
  if (units === null) return setText(byId(id), "–");
  const amount = new NumberCell();
  amount.show(units);
  byId(id).replaceChildren(amount.element);
}

/** @param {Provider} provider */
function describeMean(provider) {
  return provider.completedOrders === 0 ? "–" : formatSpan(provider.avgFulfillmentSeconds);
}
