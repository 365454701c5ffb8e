// @ts-check
/**
 * Best rates of each currency, which is also how a currency is picked.
 */

import { formatBps, formatUnits } from "../../shared/decimal.js";
import { alignDecimals, NumberCell } from "./cells.js";
import { byId, make, setAttribute, setText, within } from "../../shared/dom.js";
import { Rows } from "../../shared/rows.js";

/** @typedef {import("../core/depth.js").Best} Best */

export class BestView {
  #table = byId("best");
  #rows;

  /** @param {(currency: string) => void} pick */
  constructor(pick) {
    this.#rows = new Rows(
      within(this.#table, "tbody"),
      (/** @type {Best} */ best) => best.currency,
      (best) => bestRow(best, pick),
    );
  }

  /**
   * @param {readonly Best[]} best
   * @param {string} currency the one that is drawn
   * @param {{ units: bigint, unit: string } | null} size the order size that is asked for
   * @param {string} otherwise what to say when there are none
   */
  show(best, currency, size, otherwise) {
    const rates = best.flatMap(({ onramp, offramp }) => [onramp, offramp]);
    alignDecimals(
      this.#table,
      "rate",
      rates.flatMap((offer) => (offer === undefined ? [] : [offer.rate])),
      2,
    );
    const what =
      size === null
        ? "fiat for 1 USDC, order size in USDC"
        : `fiat for 1 USDC, in an order of ${formatUnits(size.units)} ${size.unit}`;
    setText(byId("best-aside"), what);
    this.#table.hidden = best.length === 0;
    byId("best-empty").hidden = best.length > 0;
    setText(byId("best-empty"), otherwise);
    this.#rows.show(best, false);
    for (const button of this.#table.querySelectorAll("button"))
      setAttribute(button, "aria-pressed", String(button.textContent === currency));
  }
}

/** @param {import("../core/book.js").Offer | undefined} offer */
function describeSize(offer) {
  return offer === undefined ? "–" : `${formatUnits(offer.min)} – ${formatUnits(offer.max)}`;
}

/**
 * @param {Best} best
 * @param {(currency: string) => void} pick
 * @returns {import("../../shared/rows.js").Row<Best>}
 */
function bestRow({ currency }, pick) {
  const button = make("button", { type: "button", class: "currency" }, currency);
  button.addEventListener("click", () => pick(currency));
  const sell = new NumberCell();
  const sellSize = make("small");
  const buy = new NumberCell();
  const buySize = make("small");
  const spread = make("td", { class: "number spread" });
  const element = make(
    "tr",
    {},
    make("th", { scope: "row" }, button),
    make("td", { class: "number rate sell" }, sell.element, sellSize),
    make("td", { class: "number rate buy" }, buy.element, buySize),
    spread,
  );
  /** @param {Best} best */
  const show = (best) => {
    sell.element.hidden = best.offramp === undefined;
    buy.element.hidden = best.onramp === undefined;
    if (best.offramp) sell.show(best.offramp.rate, 2);
    if (best.onramp) buy.show(best.onramp.rate, 2);
    setText(sellSize, describeSize(best.offramp));
    setText(buySize, describeSize(best.onramp));
    setText(spread, best.spreadBps === undefined ? "" : formatBps(best.spreadBps));
  };
  return { element, show };
}
