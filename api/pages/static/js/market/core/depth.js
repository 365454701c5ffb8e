// @ts-check
/**
 * What a book amounts to: depth by rate, best rates, totals.
 *
 * A provider's escrow backs all of its offers at once, so wherever amounts are added up a provider
 * counts once.
 */

import { compare, compareRates } from "./book.js";
import { spreadBps } from "../../shared/decimal.js";

/** @typedef {import("./book.js").Direction} Direction */
/** @typedef {import("./book.js").Offer} Offer */

/**
 * Everything that can be had at `rate` or better.
 *
 * @typedef {object} Step
 * @property {bigint} rate
 * @property {bigint} available USDC, over distinct providers
 * @property {number} providers how many
 */

/**
 * The steps of one currency's depth, the taker's best rate first. Both columns only grow.
 *
 * @param {readonly Offer[]} offers of one currency
 * @param {Direction} direction
 * @returns {Step[]}
 */
export function depthSteps(offers, direction) {
  const side = offers
    .filter(({ entry }) => entry.direction === direction)
    .sort((a, b) => compareRates(direction, a.rate, b.rate));
  const counted = new Set();
  let available = 0n;
  /** @type {Step[]} */
  const steps = [];
  for (const offer of side) {
    if (!counted.has(offer.entry.provider)) {
      counted.add(offer.entry.provider);
      available += offer.available;
    }
    const step = { rate: offer.rate, available, providers: counted.size };
    if (steps.at(-1)?.rate === offer.rate) steps[steps.length - 1] = step;
    else steps.push(step);
  }
  return steps;
}

/**
 * The best offers of a currency; a side without an offer is undefined.
 *
 * @typedef {object} Best
 * @property {string} currency
 * @property {Offer | undefined} onramp whoever buys USDC pays this
 * @property {Offer | undefined} offramp whoever sells USDC gets this
 * @property {bigint | undefined} spreadBps how far the first lies above the second
 * @property {number} offers how many there are in the currency
 */

/**
 * Best rates of every currency, in order of its code.
 *
 * @param {readonly Offer[]} offers in the API's order
 * @returns {Best[]}
 */
export function bestRates(offers) {
  /** @type {Map<string, Best>} */
  const byCurrency = new Map();
  for (const offer of offers) {
    const { currency, direction } = offer.entry;
    const best = byCurrency.get(currency) ?? {
      currency,
      onramp: undefined,
      offramp: undefined,
      spreadBps: undefined,
      offers: 0,
    };
    best[direction] ??= offer;
    best.offers += 1;
    byCurrency.set(currency, best);
  }
  for (const best of byCurrency.values()) {
    if (best.onramp && best.offramp && best.offramp.rate > 0n)
      best.spreadBps = spreadBps(best.onramp.rate, best.offramp.rate);
  }
  return [...byCurrency.values()].sort((a, b) => compare(a.currency, b.currency));
}

/**
 * @typedef {object} Totals
 * @property {bigint} available USDC over distinct providers
 * @property {number} offers
 * @property {number} providers
 */

/**
 * @param {readonly Offer[]} offers
 * @returns {Totals}
 */
export function totals(offers) {
  const byProvider = new Map(offers.map((offer) => [offer.entry.provider, offer.available]));
  const available = [...byProvider.values()].reduce((sum, amount) => sum + amount, 0n);
  return { available, offers: offers.length, providers: byProvider.size };
}
