// @ts-check
/**
 * Orders in which a table can be shown. Rows that compare as equal keep the API's order.
 */

import { compare } from "./book.js";
import { rateOf } from "./orders.js";
import { parseUnits } from "../../shared/decimal.js";

/** @typedef {import("./book.js").Offer} Offer */
/** @typedef {import("./orders.js").Order} Order */

/**
 * A column and its direction; null is the API's order.
 *
 * @typedef {{ column: string, descending: boolean } | null} Sorting
 */

/**
 * @template T
 * @typedef {Record<string, (item: T) => (string | bigint | number)[]>} SortKeys column → what it is
 *   sorted by; of several keys only the last is turned round by "descending"
 */

/** @type {SortKeys<Offer>} */
export const OFFER_KEYS = {
  side: ({ entry }) => [entry.direction],
  // Rates of different currencies do not compare.
  rate: ({ entry, rate }) => [entry.currency, rate],
  size: ({ max }) => [max],
  available: ({ available }) => [available],
  rails: ({ entry }) => [entry.acceptedRails.join()],
  tier: ({ entry }) => [entry.trustTier],
  fee: ({ entry }) => [entry.feeRateBps],
  provider: ({ entry }) => [entry.provider],
};

/** @type {SortKeys<Order>} */
export const ORDER_KEYS = {
  opened: ({ createdAt }) => [createdAt],
  side: ({ direction }) => [direction],
  amount: ({ amountUsdc }) => [parseUnits(amountUsdc)],
  rate: (order) => [order.currency, rateOf(order)],
  fiat: ({ currency, fiatAmount }) => [currency, parseUnits(fiatAmount)],
  rail: ({ rail }) => [rail],
  status: ({ status }) => [status],
  provider: ({ provider }) => [provider],
  taker: ({ buyer }) => [buyer],
};

/**
 * A sorted copy, or the very list in the API's order.
 *
 * @template T
 * @param {readonly T[]} items
 * @param {SortKeys<T>} keys
 * @param {Sorting} sorting
 * @returns {readonly T[]}
 */
export function sorted(items, keys, sorting) {
  const keysOf = sorting === null ? undefined : keys[sorting.column];
  if (sorting === null || keysOf === undefined) return items;
  const sign = sorting.descending ? -1 : 1;
  return items
    .map((item) => ({ item, keys: keysOf(item) }))
    .sort((a, b) => compareKeys(a.keys, b.keys, sign))
    .map(({ item }) => item);
}

/**
 * @param {(string | bigint | number)[]} a
 * @param {(string | bigint | number)[]} b of the same types
 * @param {1 | -1} sign of the last key
 */
function compareKeys(a, b, sign) {
  for (const [index, left] of a.entries()) {
    const order = compare(left, /** @type {typeof left} */ (b[index]));
    if (order !== 0) return index === a.length - 1 ? sign * order : order;
  }
  return 0;
}

/**
 * What a column's header does next: ascending, descending, the API's order again.
 *
 * @param {Sorting} sorting
 * @param {string} column
 * @returns {Sorting}
 */
export function nextSorting(sorting, column) {
  if (sorting?.column !== column) return { column, descending: false };
  return sorting.descending ? null : { column, descending: true };
}
