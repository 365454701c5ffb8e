// @ts-check
/**
 * The order book as the stream tells it: offers by identity, moved on ledger by ledger.
 */

import { parseUnits } from "../../shared/decimal.js";

/** @typedef {"onramp" | "offramp"} Direction */

/**
 * An offer as the API writes it.
 *
 * @typedef {object} Entry
 * @property {string} provider
 * @property {Direction} direction
 * @property {string} availableUsdc
 * @property {string} lockedUsdc
 * @property {string[]} acceptedRails
 * @property {Record<string, string>} paymentHandles
 * @property {number} trustTier
 * @property {number} feeRateBps
 * @property {string} rate
 * @property {string} currency
 * @property {string} minAmount
 * @property {string} maxAmount
 * @property {number} completedOrders
 * @property {number} avgFulfillmentSeconds
 * @property {string} lastActiveAt
 */

/**
 * An offer with its amounts read. It never changes: another state is another object.
 *
 * @typedef {object} Offer
 * @property {string} key its identity
 * @property {Entry} entry
 * @property {bigint} rate fiat for 1 USDC
 * @property {bigint} available
 * @property {bigint} locked
 * @property {bigint} min
 * @property {bigint} max
 */

/**
 * A change of the book.
 *
 * @typedef {object} Change
 * @property {"add" | "update" | "remove"} op
 * @property {Entry} entry
 */

/**
 * What makes two entries the same offer: provider, direction, currency and set of rails.
 *
 * @param {Entry} entry
 */
export function identity(entry) {
  const rails = [...entry.acceptedRails].sort();
  return JSON.stringify([entry.provider, entry.direction, entry.currency, rails]);
}

/**
 * @param {Entry} entry
 * @returns {Offer}
 */
export function readOffer(entry) {
  return {
    key: identity(entry),
    entry,
    rate: parseUnits(entry.rate),
    available: parseUnits(entry.availableUsdc),
    locked: parseUnits(entry.lockedUsdc),
    min: parseUnits(entry.minAmount),
    max: parseUnits(entry.maxAmount),
  };
}

export class Book {
  /** @type {Map<string, Offer>} */
  #offers = new Map();

  /** Offers, in no order. */
  get offers() {
    return [...this.#offers.values()];
  }

  /** Forget everything. */
  clear() {
    this.#offers.clear();
  }

  /**
   * Apply one ledger's changes, all of them or none.
   *
   * @param {readonly Change[]} changes
   */
  apply(changes) {
    // Read first: an entry that cannot be read must not leave a half-applied ledger behind.
    const read = changes.map(({ op, entry }) => ({ op, offer: readOffer(entry) }));
    for (const { op, offer } of read) {
      if (op === "remove") this.#offers.delete(offer.key);
      else this.#offers.set(offer.key, offer);
    }
  }
}

/**
 * The API's order: direction, currency, the taker's best rate, the larger escrow, provider, rails.
 *
 * @param {Offer} a
 * @param {Offer} b
 */
export function compareOffers(a, b) {
  return (
    compare(a.entry.direction, b.entry.direction) ||
    compare(a.entry.currency, b.entry.currency) ||
    compareRates(a.entry.direction, a.rate, b.rate) ||
    compare(b.available, a.available) ||
    compare(a.entry.provider, b.entry.provider) ||
    compareRails(a.entry.acceptedRails, b.entry.acceptedRails)
  );
}

/**
 * As Postgres compares arrays: by their first difference; of a list and its beginning, the latter.
 *
 * @param {readonly string[]} a
 * @param {readonly string[]} b
 */
function compareRails(a, b) {
  const at = a.findIndex((rail, index) => rail !== b[index]);
  const first = at === -1 ? undefined : a[at];
  const second = at === -1 ? undefined : b[at];
  if (first === undefined || second === undefined) return compare(a.length, b.length);
  return compare(first, second);
}

/**
 * Which of two rates is better for the taker: who buys USDC pays little fiat, who sells gets much.
 *
 * @param {Direction} direction
 * @param {bigint} a
 * @param {bigint} b
 */
export function compareRates(direction, a, b) {
  return direction === "onramp" ? compare(a, b) : compare(b, a);
}

/**
 * By code unit or by size; equal is 0.
 *
 * @template {string | bigint | number} T
 * @param {T} a
 * @param {T} b
 */
export function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
