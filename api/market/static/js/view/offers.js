// @ts-check
/**
 * The table of offers.
 */

import { formatAge, formatSpan } from "../core/clock.js";
import { formatBps, formatUnits } from "../core/decimal.js";
import { alignDecimals, cell, NumberCell, providerLink, sideTag } from "./cells.js";
import { byId, make, setAttribute, setText, within } from "./dom.js";
import { Rows } from "./rows.js";

/** @typedef {import("../core/book.js").Offer} Offer */
/** @typedef {import("../core/clock.js").Clock} Clock */

const AT_ONCE = 100;

const TIERS = ["hand", "one attestor", "enclave or witnesses", "proof"];

export class OffersView {
  #table = byId("offers-table");
  #more = byId("offers-more");
  #limit = AT_ONCE;
  #rows;

  /**
   * @param {Clock} clock
   * @param {() => void} draw asks for the page to be drawn again
   */
  constructor(clock, draw) {
    this.#rows = new Rows(
      within(this.#table, "tbody"),
      (/** @type {Offer} */ offer) => offer.key,
      (offer) => offerRow(offer, clock),
    );
    this.#more.addEventListener("click", () => {
      this.#limit += AT_ONCE;
      draw();
    });
  }

  /** Begin anew: with few rows. */
  fold() {
    this.#limit = AT_ONCE;
  }

  /**
   * @param {readonly Offer[]} offers in order
   * @param {boolean} marked whether changes are pointed out
   * @param {string} otherwise what to say when there are none
   */
  show(offers, marked, otherwise) {
    const shown = offers.slice(0, this.#limit);
    const left = offers.length - shown.length;
    setText(byId("offers-count"), offers.length === 0 ? "" : String(offers.length));
    this.#table.hidden = offers.length === 0;
    byId("offers-empty").hidden = offers.length > 0;
    setText(byId("offers-empty"), otherwise);
    this.#more.hidden = left === 0;
    setText(this.#more, `Show ${Math.min(AT_ONCE, left)} of ${left} more`);
    alignDecimals(
      this.#table,
      "rate",
      shown.map(({ rate }) => rate),
      2,
    );
    alignDecimals(
      this.#table,
      "available",
      shown.map(({ available }) => available),
    );
    this.#rows.show(shown, marked);
  }
}

/**
 * @param {Offer} offer
 * @param {Clock} clock
 * @returns {import("./rows.js").Row<Offer>}
 */
function offerRow({ entry }, clock) {
  const rate = new NumberCell(entry.currency);
  const size = make("span");
  const available = new NumberCell();
  const locked = make("small");
  const rails = make("ul", { class: "rails" });
  const tier = make("span", { class: "tier" });
  const fee = make("span");
  const record = make("small");
  const element = make(
    "tr",
    { role: "row" },
    cell("Side", "lead", sideTag(entry.direction)),
    cell("Rate", "number rate", rate.element),
    cell("Order size, USDC", "number", size),
    cell("Available, USDC", "number available", available.element, locked),
    cell("Rails", "wide", rails),
    cell("Verified by", "", tier),
    cell("Fee", "number", fee),
    cell("Provider", "wide provider", providerLink(entry.provider), record),
  );
  /** @param {Offer} offer */
  const show = (offer) => {
    const now = offer.entry;
    rate.show(offer.rate, 2);
    setText(size, `${formatUnits(offer.min)} – ${formatUnits(offer.max)}`);
    available.show(offer.available);
    setText(locked, offer.locked > 0n ? `${formatUnits(offer.locked)} locked` : "");
    showRails(rails, now.acceptedRails, now.paymentHandles);
    setText(tier, TIERS[now.trustTier] ?? `tier ${now.trustTier}`);
    setAttribute(tier, "title", `trust tier ${now.trustTier}`);
    setText(fee, formatBps(now.feeRateBps));
    const active = formatAge(clock.secondsSince(now.lastActiveAt));
    setText(record, `${describeRecord(now)} · active ${active} ago`);
  };
  return { element, show };
}

/**
 * The rails of an offer, each with the handle that the provider publishes there.
 *
 * @param {HTMLUListElement} list
 * @param {readonly string[]} rails
 * @param {Record<string, string>} handles
 */
function showRails(list, rails, handles) {
  const told = JSON.stringify(rails.map((rail) => [rail, handles[rail]]));
  if (list.dataset.told === told) return;
  list.dataset.told = told;
  list.replaceChildren(
    ...rails.map((rail) => {
      const item = make("li", {}, make("span", { class: "rail" }, rail));
      const handle = Object.hasOwn(handles, rail) ? handles[rail] : undefined;
      // A stranger's text: isolated, so that it cannot turn the direction of what follows it.
      if (handle !== undefined) item.append(" ", make("bdi", { class: "handle" }, handle));
      return item;
    }),
  );
}

/** @param {import("../core/book.js").Entry} entry */
function describeRecord({ completedOrders, avgFulfillmentSeconds }) {
  if (completedOrders === 0) return "no orders yet";
  const orders = completedOrders === 1 ? "order" : "orders";
  return `${completedOrders} ${orders}, ${formatSpan(avgFulfillmentSeconds)} each`;
}
