// @ts-check
/**
 * Orders as they were last told, the newest first.
 */

import { compare } from "./book.js";
import { DECIMALS, parseUnits } from "../../shared/decimal.js";

/**
 * An order as the API writes it.
 *
 * @typedef {object} Order
 * @property {string} intentId
 * @property {string} buyer
 * @property {string} provider
 * @property {"onramp" | "offramp"} direction
 * @property {string} rail
 * @property {string} currency
 * @property {string} amountUsdc
 * @property {string} fiatAmount
 * @property {"active" | "fulfilled" | "cancelled" | "expired"} status
 * @property {number} trustTier
 * @property {string} createdAt
 * @property {string} expiresAt
 * @property {string} [nullifier]
 * @property {string} [txHash]
 * @property {string} [releasedUsdc] if it is less than `amountUsdc`
 */

export class Orders {
  /** @type {Map<string, Order>} */
  #orders = new Map();
  #most;

  /** @param {number} most how many are kept: the newest */
  constructor(most) {
    this.#most = most;
  }

  /** The newest first. */
  get newest() {
    return [...this.#orders.values()];
  }

  /**
   * Take in orders as they were at some ledger, from the stream or from a list that was asked for.
   *
   * Nothing of an order changes but its status, and that once, away from "active": a list that is
   * older than what the stream has told takes nothing back, and what is known stays the same object.
   *
   * @param {readonly Order[]} orders
   */
  take(orders) {
    for (const order of orders) {
      const known = this.#orders.get(order.intentId);
      const isNews = known === undefined || known.status === "active";
      if (isNews && known?.status !== order.status) this.#orders.set(order.intentId, order);
    }
    const sorted = [...this.#orders.values()].sort(compareOrders).slice(0, this.#most);
    this.#orders = new Map(sorted.map((order) => [order.intentId, order]));
  }
}

/**
 * Fiat for 1 USDC at which an order was opened. The contract rounds the fiat amount by less than a
 * unit (up on an onramp), so of an order of 1 USDC or more this is exact.
 *
 * @param {Order} order
 */
export function rateOf({ direction, amountUsdc, fiatAmount }) {
  const amount = parseUnits(amountUsdc);
  const fiat = parseUnits(fiatAmount) * 10n ** BigInt(DECIMALS);
  if (amount === 0n) return 0n;
  return direction === "onramp" ? fiat / amount : (fiat + amount - 1n) / amount;
}

/**
 * @param {Order} a
 * @param {Order} b
 */
function compareOrders(a, b) {
  return compare(b.createdAt, a.createdAt) || compare(a.intentId, b.intentId);
}
