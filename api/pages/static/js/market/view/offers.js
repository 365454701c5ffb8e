// @ts-check
/**
 * The table of offers.
 */

import { formatAge, formatSpan } from "../../shared/clock.js";
import { formatBps, formatUnits } from "../../shared/decimal.js";
import { alignDecimals, cell, NumberCell, providerLink, sideTag } from "./cells.js";
import { byId, make, setText, within } from "../../shared/dom.js";
import { Rows } from "../../shared/rows.js";
import { OFFER_COLUMNS, toCsv } from "../core/csv.js";
import { OFFER_KEYS, sorted } from "../core/sorting.js";
import { ESCROW } from "../site.js";
import { downloadCsv } from "./download.js";
import { Sorter } from "./sorter.js";

/** @typedef {import("../core/book.js").Offer} Offer */
/** @typedef {import("../../shared/clock.js").Clock} Clock */

const AT_ONCE = 100;

const TIERS = ["hand", "one attestor", "enclave or witnesses", "proof"];

export class OffersView {
  #table = byId("offers-table");
  #more = byId("offers-more");
  #limit = AT_ONCE;
  #rows;
  #sorter;
  /** What is shown, and what is folded away. */
  #listed = /** @type {readonly Offer[]} */ ([]);

  /**
   * @param {Clock} clock
   * @param {() => void} draw asks for the page to be drawn again
   * @param {(offer: Offer) => void} take shows how to take an offer
   */
  constructor(clock, draw, take) {
    this.#rows = new Rows(
      within(this.#table, "tbody"),
      (/** @type {Offer} */ offer) => offer.key,
      (offer) => offerRow(offer, clock, take),
    );
    this.#sorter = new Sorter(this.#table, byId("offers-order"), draw);
    byId("offers-csv").addEventListener("click", () =>
      downloadCsv("isthmus-offers.csv", toCsv(OFFER_COLUMNS, this.#listed)),
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
   * @param {readonly Offer[]} offers in the API's order
   * @param {boolean} marked whether changes are pointed out
   * @param {string} otherwise what to say when there are none
   */
  show(offers, marked, otherwise) {
    this.#listed = sorted(offers, OFFER_KEYS, this.#sorter.sorting);
    const shown = this.#listed.slice(0, this.#limit);
    const left = offers.length - shown.length;
    setText(byId("offers-count"), offers.length === 0 ? "" : String(offers.length));
    this.#table.hidden = offers.length === 0;
    byId("offers-csv").hidden = offers.length === 0;
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
 * @param {(offer: Offer) => void} take
 * @returns {import("../../shared/rows.js").Row<Offer>}
 */
function offerRow({ entry }, clock, take) {
  const rate = new NumberCell(entry.currency);
  const size = make("span");
  const available = new NumberCell();
  const locked = make("small");
  const rails = make("ul", { class: "rails" });
  const tier = make("span");
  const fee = make("span");
  const record = make("small");
  const button = make("button", { type: "button", class: "quiet" }, "Take");
  let current = /** @type {Offer | null} */ (null);
  button.addEventListener("click", () => current && take(current));
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
    cell("Take", "wide", ...(ESCROW.contract === "" ? [] : [button])),
  );
  /** @param {Offer} offer */
  const show = (offer) => {
    const now = offer.entry;
    current = offer;
    rate.show(offer.rate, 2);
    setText(size, `${formatUnits(offer.min)} – ${formatUnits(offer.max)}`);
    available.show(offer.available);
    setText(locked, offer.locked > 0n ? `${formatUnits(offer.locked)} locked` : "");
    showRails(rails, now.acceptedRails);
    showTier(tier, now.trustTier);
    setText(fee, formatBps(now.feeRateBps));
    const active = formatAge(clock.secondsSince(now.lastActiveAt));
    setText(record, `${describeRecord(now)} · active ${active} ago`);
  };
  return { element, show };
}

/**
 * The rails of an offer. Who is paid there is personal data: see the dialog of `view/take.js`.
 *
 * @param {HTMLUListElement} list
 * @param {readonly string[]} rails
 */
function showRails(list, rails) {
  const shown = rails.join();
  if (list.dataset["rails"] === shown) return;
  list.dataset["rails"] = shown;
  list.replaceChildren(
    ...rails.map((rail) => make("li", {}, make("span", { class: "rail" }, rail))),
  );
}

/**
 * How payments are verified: a button that opens the note of the tier, if the page has one.
 *
 * @param {HTMLElement} parent
 * @param {number} tier
 */
function showTier(parent, tier) {
  if (parent.dataset["tier"] === String(tier)) return;
  parent.dataset["tier"] = String(tier);
  const name = TIERS[tier];
  if (name === undefined) setText(parent, `tier ${tier}`);
  else
    parent.replaceChildren(
      make("button", { type: "button", class: "tier", popovertarget: `tier-${tier}` }, name),
    );
}

/** @param {import("../core/book.js").Entry} entry */
function describeRecord({ completedOrders, avgFulfillmentSeconds }) {
  if (completedOrders === 0) return "none completed yet";
  const orders = completedOrders === 1 ? "order" : "orders";
  return `${completedOrders} ${orders}, ${formatSpan(avgFulfillmentSeconds)} each`;
}
