// @ts-check
/**
 * What the reader wants to see, and its place in the page's address.
 */

import { isDecimal, parseUnits } from "../../shared/decimal.js";
import { usdcFor } from "./take.js";

/** @typedef {import("./book.js").Offer} Offer */

/**
 * Empty text is "any".
 *
 * @typedef {object} Filters
 * @property {"" | "onramp" | "offramp"} direction
 * @property {string} currency
 * @property {string} rail
 * @property {string} amount USDC, as typed: it may not be a number (yet)
 * @property {string} fiat the same in `currency`, instead of `amount`; empty without a currency
 */

/** @type {Readonly<Filters>} */
export const ANY = Object.freeze({ direction: "", currency: "", rail: "", amount: "", fiat: "" });

const NAMES = /** @type {const} */ (["direction", "currency", "rail", "amount", "fiat"]);

/**
 * Filters of an address. What is not understood is left out.
 *
 * @param {URLSearchParams} query
 * @returns {Filters}
 */
export function readFilters(query) {
  const direction = query.get("direction") ?? "";
  const amount = query.get("amount") ?? "";
  const currency = (query.get("currency") ?? "").toUpperCase();
  return {
    direction: direction === "onramp" || direction === "offramp" ? direction : "",
    currency,
    rail: query.get("rail") ?? "",
    amount,
    fiat: currency !== "" && amount === "" ? (query.get("fiat") ?? "") : "",
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
 * What is typed as a size; null for nothing, or while it is no amount.
 *
 * @param {string} typed
 */
function sizeOf(typed) {
  return isDecimal(typed.trim()) ? parseUnits(typed.trim()) : null;
}

/**
 * The order size that is asked for, with its unit; null for none.
 *
 * @param {Filters} filters
 */
export function wantedSize({ amount, currency, fiat }) {
  const [units, unit] = fiat === "" ? [sizeOf(amount), "USDC"] : [sizeOf(fiat), currency];
  return units === null ? null : { units, unit };
}

/**
 * USDC of an order of the size that is asked for; null for none.
 *
 * @param {Filters} filters
 * @param {Offer} offer
 */
export function amountOf(filters, offer) {
  const units = sizeOf(filters.fiat);
  return units === null ? sizeOf(filters.amount) : usdcFor(offer, units);
}

/**
 * Whether what is typed as a size cannot be read.
 *
 * @param {string} typed
 */
export function isSizeBad(typed) {
  return typed.trim() !== "" && sizeOf(typed) === null;
}

/**
 * Offers that fit, by the rules of `GET /api/v1/orderbook`.
 *
 * @param {readonly Offer[]} offers
 * @param {Filters} filters
 */
export function select(offers, filters) {
  return offers.filter((offer) => {
    const { entry, min, max } = offer;
    const amount = amountOf(filters, offer);
    return (
      (filters.direction === "" || entry.direction === filters.direction) &&
      (filters.currency === "" || entry.currency === filters.currency) &&
      (filters.rail === "" || entry.acceptedRails.includes(filters.rail)) &&
      (amount === null || (min <= amount && amount <= max))
    );
  });
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
