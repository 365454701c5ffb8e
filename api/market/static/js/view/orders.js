// @ts-check
/**
 * The table of recent orders.
 */

import { formatAge, formatSpan } from "../core/clock.js";
import { parseUnits } from "../core/decimal.js";
import { alignDecimals, cell, NumberCell, providerLink, shorten, sideTag } from "./cells.js";
import { byId, make, setAttribute, setText, within } from "./dom.js";
import { Rows } from "./rows.js";

/** @typedef {import("../core/orders.js").Order} Order */
/** @typedef {import("../core/clock.js").Clock} Clock */

export class OrdersView {
  #table = byId("orders-table");
  #rows;

  /** @param {Clock} clock */
  constructor(clock) {
    this.#rows = new Rows(
      within(this.#table, "tbody"),
      (/** @type {Order} */ order) => order.intentId,
      (order) => orderRow(order, clock),
    );
  }

  /**
   * @param {readonly Order[]} orders the newest first
   * @param {boolean} marked whether changes are pointed out
   */
  show(orders, marked) {
    this.#table.hidden = orders.length === 0;
    byId("orders-empty").hidden = orders.length > 0;
    alignDecimals(
      this.#table,
      "amount",
      orders.map((order) => parseUnits(order.amountUsdc)),
    );
    alignDecimals(
      this.#table,
      "fiat",
      orders.map((order) => parseUnits(order.fiatAmount)),
      2,
    );
    this.#rows.show(orders, marked);
  }
}

/**
 * @param {Order} order
 * @param {Clock} clock
 * @returns {import("./rows.js").Row<Order>}
 */
function orderRow(order, clock) {
  const opened = make("time", { datetime: order.createdAt, title: order.createdAt });
  const amount = new NumberCell();
  const fiat = new NumberCell(order.currency);
  const status = make("span", { class: "status" });
  const rest = make("small");
  const element = make(
    "tr",
    { role: "row", title: `Order ${order.intentId}` },
    cell("Opened", "opened", opened),
    cell("Side", "lead", sideTag(order.direction)),
    cell("USDC", "number amount", amount.element),
    cell("Fiat", "number fiat", fiat.element),
    cell("Rail", "", make("span", { class: "rail" }, order.rail)),
    cell("Status", "status-of", status, rest),
    cell("Provider", "", providerLink(order.provider)),
    cell("Taker", "", make("span", { class: "address", title: order.buyer }, shorten(order.buyer))),
  );
  amount.show(parseUnits(order.amountUsdc));
  fiat.show(parseUnits(order.fiatAmount), 2);
  /** @param {Order} now */
  const show = (now) => {
    setText(opened, `${formatAge(clock.secondsSince(now.createdAt))} ago`);
    setText(status, now.status);
    setAttribute(status, "data-status", now.status);
    setText(rest, now.status === "active" ? timeLeft(now.expiresAt, clock) : "");
  };
  return { element, show };
}

/**
 * Until when an order can be settled. It ends with a ledger, not with this clock.
 *
 * @param {string} expiresAt
 * @param {Clock} clock
 */
function timeLeft(expiresAt, clock) {
  const seconds = Math.ceil((Date.parse(expiresAt) - clock.now()) / 1000);
  return seconds > 0 ? `${formatSpan(seconds)} left` : "about to expire";
}
