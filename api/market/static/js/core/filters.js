// @ts-check
/**
 * What the reader wants to see, and its place in the page's address.
 */

import { isDecimal, parseUnits } from "./decimal.js";

/** @typedef {import("./book.js").Offer} Offer */

/**
 * Empty text is "any".
 *
 * @typedef {object} Filters
 * @property {"" | "onramp" | "offramp"} direction
 * @property {string} currency
 * @property {string} rail
 * @property {string} amount as typed: it may not be a number (yet)
 */

/** @type {Readonly<Filters>} */
export const ANY = Object.freeze({ direction: "", currency: "", rail: "", amount: "" });

const NAMES = /** @type {const} */ (["direction", "currency", "rail", "amount"]);

/**
 * Filters of an address. What is not understood is left out.
 *
 * @param {URLSearchParams} query
 * @returns {Filters}
 */
export function readFilters(query) {
  const direction = query.get("direction") ?? "";
  return {
    direction: direction === "onramp" || direction === "offramp" ? direction : "",
    currency: (query.get("currency") ?? "").toUpperCase(),
    rail: query.get("rail") ?? "",
    amount: query.get("amount") ?? "",
  };
}

/**
 * The address's query that says these filters.
 *
 * @param {Filters} filters
 */
export function writeFilters(filters) {
  const query = new URLSearchParams();
  for (const name of NAMES) if (filters[name] !== "") query.set(name, filters[name]);
  return query;
}

/**
 * The order size that is asked for; null for none, or while what is typed is no amount.
 *
 * @param {Filters} filters
 */
export function amountOf(filters) {
  const typed = filters.amount.trim();
  return isDecimal(typed) ? parseUnits(typed) : null;
}

/**
 * Whether what is typed as an amount cannot be read.
 *
 * @param {Filters} filters
 */
export function isAmountBad(filters) {
  return filters.amount.trim() !== "" && amountOf(filters) === null;
}

/**
 * Offers that fit, by the rules of `GET /api/v1/orderbook`.
 *
 * @param {readonly Offer[]} offers
 * @param {Filters} filters
 */
export function select(offers, filters) {
  const amount = amountOf(filters);
  return offers.filter(
    ({ entry, min, max }) =>
      (filters.direction === "" || entry.direction === filters.direction) &&
      (filters.currency === "" || entry.currency === filters.currency) &&
      (filters.rail === "" || entry.acceptedRails.includes(filters.rail)) &&
      (amount === null || (min <= amount && amount <= max)),
  );
}

/**
 * The currencies and rails that offers have, each sorted.
 *
 * @param {readonly Offer[]} offers
 */
export function choices(offers) {
  return {
    currencies: [...new Set(offers.map(({ entry }) => entry.currency))].sort(),
    rails: [...new Set(offers.flatMap(({ entry }) => entry.acceptedRails))].sort(),
  };
}
