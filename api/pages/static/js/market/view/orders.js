// @ts-check
/**
 * The table of recent orders.
 */

import { formatAge, formatSpan } from "../../shared/clock.js";
import { formatUnits, parseUnits } from "../../shared/decimal.js";
import { alignDecimals, cell, NumberCell, providerLink, sideTag } from "./cells.js";
import { byId, make, setAttribute, setText, within } from "../../shared/dom.js";
import { reference } from "../../shared/parts.js";
import { Rows } from "../../shared/rows.js";
import { ORDER_COLUMNS, toCsv } from "../core/csv.js";
import { rateOf } from "../core/orders.js";
import { ORDER_KEYS, sorted } from "../core/sorting.js";
import { downloadCsv } from "./download.js";
import { CHAIN } from "../site.js";
import { Sorter } from "./sorter.js";

/** @typedef {import("../core/orders.js").Order} Order */
/** @typedef {import("../../shared/clock.js").Clock} Clock */

export class OrdersView {
  #table = byId("orders-table");
  #rows;
  #sorter;
  #shown = /** @type {readonly Order[]} */ ([]);

  /**
   * @param {Clock} clock
   * @param {() => void} draw asks for the page to be drawn again
   */
  constructor(clock, draw) {
    this.#rows = new Rows(
      within(this.#table, "tbody"),
      (/** @type {Order} */ order) => order.intentId,
      (order) => orderRow(order, clock),
    );
    this.#sorter = new Sorter(this.#table, byId("orders-order"), draw);
    byId("orders-csv").addEventListener("click", () =>
      downloadCsv("isthmus-orders.csv", toCsv(ORDER_COLUMNS, this.#shown)),
    );
  }

  /**
   * @param {readonly Order[]} orders the newest first
   * @param {boolean} marked whether changes are pointed out
   * @param {string} otherwise what to say when there are none
   */
  show(orders, marked, otherwise) {
    this.#table.hidden = orders.length === 0;
    byId("orders-csv").hidden = orders.length === 0;
    byId("orders-empty").hidden = orders.length > 0;
    setText(byId("orders-empty"), otherwise);
    this.#shown = sorted(orders, ORDER_KEYS, this.#sorter.sorting);
    alignDecimals(this.#table, "rate", orders.map(rateOf), 2);
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
    this.#rows.show(this.#shown, marked);
  }
}

/**
 * @param {Order} order
 * @param {Clock} clock
 * @returns {import("../../shared/rows.js").Row<Order>}
 */
function orderRow(order, clock) {
  const opened = make("time", { datetime: order.createdAt, title: order.createdAt });
  const amount = new NumberCell();
  const rate = new NumberCell(order.currency);
  const fiat = new NumberCell(order.currency);
  const status = make("span", { class: "status" });
  const rest = make("small");
  const settlement = make("small");
  const element = make(
    "tr",
    { role: "row", title: `Order ${order.intentId}` },
    cell("Opened", "opened", opened),
    cell("Side", "lead", sideTag(order.direction)),
    cell("USDC", "number amount", amount.element),
    cell("Rate", "number rate", rate.element),
    cell("Fiat", "number fiat", fiat.element),
    cell("Rail", "", make("span", { class: "rail" }, order.rail)),
    cell("Status", "status-of", status, rest, settlement),
    cell("Provider", "", providerLink(order.provider)),
    cell("Taker", "", reference(CHAIN, order.buyer, "Taker")),
  );
  amount.show(parseUnits(order.amountUsdc));
  rate.show(rateOf(order), 2);
  fiat.show(parseUnits(order.fiatAmount), 2);
  /** @param {Order} now */
  const show = (now) => {
    setText(opened, `${formatAge(clock.secondsSince(now.createdAt))} ago`);
    setText(status, now.status);
    setAttribute(status, "data-status", now.status);
    setText(rest, now.status === "active" ? timeLeft(now.expiresAt, clock) : released(now));
    if (now.txHash !== undefined && settlement.childElementCount === 0)
      settlement.append(reference(CHAIN, now.txHash, "The settlement's transaction", "settlement"));
  };
  return { element, show };
}

/**
 * What a payment of a part of the amount released; empty where all was.
 *
 * @param {Order} order
 */
function released({ releasedUsdc }) {
  return releasedUsdc === undefined ? "" : `${formatUnits(parseUnits(releasedUsdc))} USDC released`;
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
