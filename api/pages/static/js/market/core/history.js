// @ts-check
/**
 * Prices by day, from `GET /api/v1/orderbook/history`.
 */

import { DECIMALS, parseUnits } from "../../shared/decimal.js";

/** @typedef {import("./book.js").Direction} Direction */

/**
 * One direction of one rail on a day, as the API writes it.
 *
 * @typedef {object} MarketDay
 * @property {string} day
 * @property {Direction} direction
 * @property {string} rail
 * @property {string | null} rate
 * @property {string} volumeUsdc
 * @property {string | null} volumeFiat
 * @property {number} fulfilledOrders
 */

/**
 * @typedef {object} History as the API writes it
 * @property {string} currency
 * @property {string | null} firstDay null while no day is known
 * @property {string | null} lastDay
 * @property {MarketDay[]} days
 */

/**
 * What was settled in one direction on a day.
 *
 * @typedef {object} Settled
 * @property {bigint} rate fiat for 1 USDC, over all that was released
 * @property {bigint} volume USDC
 * @property {number} orders
 */

/**
 * @typedef {object} PriceDay
 * @property {string} day
 * @property {Settled | null} onramp null when nothing was settled
 * @property {Settled | null} offramp
 */

const UNIT = 10n ** BigInt(DECIMALS);
const DAY = 86_400_000;

/**
 * Every day of the history, the oldest first; none while no day is known.
 *
 * @param {History} history
 * @param {string} rail empty for all rails together
 * @returns {PriceDay[]}
 */
export function priceDays({ firstDay, lastDay, days }, rail) {
  if (firstDay === null || lastDay === null) return [];
  const wanted = days.filter((each) => rail === "" || each.rail === rail);
  /** @type {PriceDay[]} */
  const found = [];
  for (let time = Date.parse(firstDay); time <= Date.parse(lastDay); time += DAY) {
    const day = new Date(time).toISOString().slice(0, 10);
    const markets = wanted.filter((each) => each.day === day);
    found.push({ day, onramp: settled(markets, "onramp"), offramp: settled(markets, "offramp") });
  }
  return found;
}

/**
 * The rails of a history, sorted.
 *
 * @param {History} history
 */
export function railsOf({ days }) {
  return [...new Set(days.map(({ rail }) => rail))].sort();
}

/**
 * @param {readonly MarketDay[]} markets of one day
 * @param {Direction} direction
 * @returns {Settled | null}
 */
function settled(markets, direction) {
  let [volume, fiat, orders] = [0n, 0n, 0];
  for (const market of markets) {
    // Without a fiat amount there is no rate that it could be part of.
    if (market.direction !== direction || market.volumeFiat === null) continue;
    volume += parseUnits(market.volumeUsdc);
    fiat += parseUnits(market.volumeFiat);
    orders += market.fulfilledOrders;
  }
  if (volume === 0n) return null;
  return { rate: (2n * fiat * UNIT + volume) / (2n * volume), volume, orders };
}
