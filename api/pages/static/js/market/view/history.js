// @ts-check
/**
 * Prices of one currency by day: a chart for the eye, the same figures as a table.
 */

import { formatUnits } from "../../shared/decimal.js";
import { priceDays, railsOf } from "../core/history.js";
import { byId, make, setAttribute, setText, within } from "../../shared/dom.js";
import { PriceChart } from "./pricechart.js";

/** @typedef {import("../core/history.js").PriceDay} PriceDay */
/** @typedef {import("../core/history.js").Settled} Settled */

/**
 * What is known of a currency's prices.
 *
 * @typedef {object} Known
 * @property {string} currency empty while no offer is known
 * @property {boolean} isBookKnown whether offers are known, if only that there are none
 * @property {import("../core/history.js").History | null} history
 * @property {string} problem why it is not known; empty while it is waited for
 */

export class HistoryView {
  #chart = new PriceChart(byId("history-chart"), (index) => this.#read(index));
  /** @type {PriceDay[]} */
  #days = [];
  #currency = "";
  /** What was drawn last. */
  #drawn = {
    history: /** @type {Known["history"]} */ (null),
    rail: "",
    problem: "",
    currency: "",
    isBookKnown: false,
  };
  /** @type {HTMLSelectElement} */
  #rail = byId("history-rail");
  /** @type {HTMLDetailsElement} */
  #asTable = byId("history-details");

  /** @param {() => void} draw asks for the page to be drawn again */
  constructor(draw) {
    this.#rail.addEventListener("input", draw);
    this.#asTable.addEventListener("toggle", () => this.#tabulate());
  }

  /** @param {string} rail the filters' */
  choose(rail) {
    this.#offer(
      [...this.#rail.options].map(({ value }) => value).filter((each) => each),
      rail,
    );
  }

  /** @param {Known} known */
  show({ currency, history, isBookKnown, problem }) {
    if (history !== null) this.#offer(railsOf(history), this.#rail.value);
    const wanted = { history, rail: this.#rail.value, problem, currency, isBookKnown };
    const isDrawn = Object.entries(wanted).every(
      ([name, value]) => this.#drawn[/** @type {keyof wanted} */ (name)] === value,
    );
    if (isDrawn) return;
    this.#drawn = wanted;
    this.#currency = currency;
    this.#days = history === null ? [] : priceDays(history, this.#rail.value);
    const isEmpty = this.#days.every(({ onramp, offramp }) => onramp === null && offramp === null);
    setText(byId("history-currency"), currency);
    for (const id of ["history-chart", "history-readout", "history-details"])
      byId(id).hidden = isEmpty;
    byId("history-empty").hidden = !isEmpty;
    setText(byId("history-empty"), describeNothing(wanted));
    if (isEmpty) return;
    setAttribute(byId("history-chart"), "aria-label", `Prices by day. ${this.#describe()}`);
    this.#chart.show(this.#days);
    this.#tabulate();
    this.#read(null);
  }

  /**
   * @param {readonly string[]} rails
   * @param {string} chosen
   */
  #offer(rails, chosen) {
    const wanted = ["", ...new Set(chosen === "" ? rails : [...rails, chosen].sort())];
    const there = [...this.#rail.options].map(({ value }) => value);
    if (wanted.join() !== there.join())
      this.#rail.replaceChildren(
        ...wanted.map((value) => make("option", { value }, value === "" ? "All" : value)),
      );
    if (this.#rail.value !== chosen) this.#rail.value = chosen;
  }

  /** The whole chart in a sentence. */
  #describe() {
    const [first, last] = [this.#days[0], this.#days.at(-1)];
    const sides = [
      describeRange(
        "Sold",
        this.#days.map(({ offramp }) => offramp),
        this.#currency,
      ),
      describeRange(
        "Bought",
        this.#days.map(({ onramp }) => onramp),
        this.#currency,
      ),
    ];
    return `${sides.join(" ")} Closed days ${first?.day} to ${last?.day}, UTC.`;
  }

  /** @param {number | null} index of the day under the pointer */
  #read(index) {
    const day = index === null ? undefined : this.#days[index];
    setText(byId("history-readout"), day === undefined ? this.#describe() : this.#say(day));
    byId("history-readout").classList.toggle("at-rest", day === undefined);
  }

  /** @param {PriceDay} day */
  #say({ day, onramp, offramp }) {
    const sides = [
      offramp && `sold at ${describeSettled(offramp, this.#currency)}`,
      onramp && `bought at ${describeSettled(onramp, this.#currency)}`,
    ].filter((side) => side !== null);
    return `${day}: ${sides.join(", ") || "nothing was settled"}`;
  }

  /** A table that is folded away is not made. */
  #tabulate() {
    if (!this.#asTable.open) return;
    const rows = this.#days
      .toReversed()
      .flatMap(({ day, onramp, offramp }) => [
        ...(offramp === null ? [] : [dayRow(day, "Sell", offramp)]),
        ...(onramp === null ? [] : [dayRow(day, "Buy", onramp)]),
      ]);
    within(byId("history-table"), "tbody").replaceChildren(...rows);
  }
}

/** @param {Known & { rail: string }} known */
function describeNothing({ currency, history, isBookKnown, problem, rail }) {
  if (problem !== "") return `Prices cannot be shown: ${problem}`;
  if (currency === "" && isBookKnown) return "No offers, so no currency to show prices of.";
  if (currency === "" || history === null) return "Waiting for prices…";
  if (history.lastDay === null) return "No day is closed and computed yet.";
  const where = rail === "" ? "" : ` on ${rail}`;
  return `Nothing was settled in ${currency}${where} from ${history.firstDay} to ${history.lastDay}.`;
}

/**
 * @param {string} done
 * @param {readonly (Settled | null)[]} days
 * @param {string} currency
 */
function describeRange(done, days, currency) {
  const settled = days.filter((day) => day !== null);
  if (settled.length === 0) return `${done}: nothing.`;
  const rates = settled.map(({ rate }) => rate);
  const low = rates.reduce((a, b) => (a < b ? a : b));
  const high = rates.reduce((a, b) => (a > b ? a : b));
  const range = `${formatUnits(low, 2)} to ${formatUnits(high, 2)} ${currency}`;
  const volume = settled.reduce((sum, day) => sum + day.volume, 0n);
  const orders = settled.reduce((sum, day) => sum + day.orders, 0);
  return `${done} at ${range} (${describeVolume(volume, orders)}).`;
}

/**
 * @param {Settled} settled
 * @param {string} currency
 */
function describeSettled({ rate, volume, orders }, currency) {
  return `${formatUnits(rate, 2)} ${currency} (${describeVolume(volume, orders)})`;
}

/**
 * @param {bigint} volume USDC, 7 decimals
 * @param {number} orders
 */
function describeVolume(volume, orders) {
  return `${formatUnits(volume)} USDC in ${orders} ${orders === 1 ? "order" : "orders"}`;
}

/**
 * @param {string} day
 * @param {string} side
 * @param {Settled} settled
 */
function dayRow(day, side, { rate, volume, orders }) {
  return make(
    "tr",
    {},
    make("td", {}, day),
    make("td", {}, side),
    make("td", { class: "number" }, formatUnits(rate, 2)),
    make("td", { class: "number" }, formatUnits(volume)),
    make("td", { class: "number" }, String(orders)),
  );
}
