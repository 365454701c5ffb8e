// @ts-check
/**
 * Totals of the market, and a provider's figures.
 */

import { formatSpan } from "../../shared/clock.js";
import { formatBps, parseUnits } from "../../shared/decimal.js";
import { NumberCell } from "./cells.js";
import { byId, make, setText } from "../../shared/dom.js";
import { explorerLink, shorten } from "../../shared/parts.js";
import { CHAIN } from "../site.js";

/**
 * @param {import("../core/depth.js").Totals | null} totals null while no book is known
 * @param {string | null} locked as the API's summary has it; null while it is not known
 * @param {string} problem why it is not; empty when nothing is wrong
 */
export function showTotals(totals, locked, problem) {
  showAmount("total-available", totals && totals.available);
  showAmount("total-locked", locked === null ? null : parseUnits(locked));
  setText(byId("total-offers"), totals === null ? "–" : String(totals.offers));
  setText(byId("total-providers"), totals === null ? "–" : String(totals.providers));
  setText(byId("totals-problem"), locked === null && problem ? `Locked in orders: ${problem}` : "");
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
  showExplorer(address);
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

/**
 * The address, with a link to its page in the explorer once it is known to be one.
 *
 * @param {string} address
 */
function showExplorer(address) {
  const shown = byId("provider-address");
  if (shown.textContent === address) return;
  setText(shown, address);
  const link = explorerLink(
    CHAIN,
    address,
    "Account in the explorer ↗",
    `Provider ${shorten(address)}`,
  );
  const isAddress = /^[GC][A-Z2-7]{55}$/.test(address);
  byId("provider-explorer").replaceChildren(...(link !== null && isAddress ? [link] : []));
}

/**
 * What became of a provider's orders lately, as the API writes it.
 *
 * @typedef {object} Activity
 * @property {string} since
 * @property {number} openedOrders
 * @property {string} volumeUsdc
 * @property {string | null} fillRate
 * @property {number | null} medianFulfillmentSeconds
 */

/**
 * @param {Activity | null} activity null while it is not known
 * @param {string} problem why it is not; empty when nothing is wrong
 */
export function showActivity(activity, problem) {
  setText(byId("activity-problem"), activity === null ? problem : "");
  byId("activity-figures").hidden = activity === null && problem !== "";
  setText(byId("activity-since"), activity ? `since ${activity.since.slice(0, 10)}` : "lately");
  showAmount("activity-volume", activity && parseUnits(activity.volumeUsdc));
  const fill = activity?.fillRate ?? null;
  const median = activity?.medianFulfillmentSeconds ?? null;
  setText(byId("activity-fill"), fill === null ? "–" : formatBps(toBps(fill)));
  setText(byId("activity-median"), median === null ? "–" : formatSpan(median));
  setText(byId("activity-opened"), activity ? String(activity.openedOrders) : "–");
}

/**
 * A share of 0 to 1 in whole basis points.
 *
 * @param {string} share
 */
function toBps(share) {
  return (parseUnits(share) + 500n) / 1000n;
}
