// @ts-check
/**
 * The depth of one currency: a chart for the eye, the same figures as a table.
 *
 * Whoever sells USDC looks left from the best rate, whoever buys looks right: the further from the
 * middle, the worse the rate and the more there is.
 */

import { depthSteps } from "../core/depth.js";
import { formatUnits } from "../../shared/decimal.js";
import { drawnSteps, DepthChart } from "./chart.js";
import { byId, make, setAttribute, setText, within } from "../../shared/dom.js";

/** @typedef {import("../core/book.js").Offer} Offer */
/** @typedef {import("../core/depth.js").Step} Step */

export class DepthView {
  #chart = new DepthChart(byId("chart"), (steps) => this.#read(steps));
  #currency = "";
  /** @type {{ onramp: Step[], offramp: Step[] }} */
  #steps = { onramp: [], offramp: [] };
  /** @type {HTMLDetailsElement} */
  #asTable = byId("depth-details");

  constructor() {
    this.#asTable.addEventListener("toggle", () => this.#tabulate());
  }

  /**
   * @param {readonly Offer[]} offers of that currency
   * @param {string} currency
   * @param {string} otherwise what to say when there are none
   */
  show(offers, currency, otherwise) {
    this.#currency = currency;
    this.#steps = {
      onramp: depthSteps(offers, "onramp"),
      offramp: depthSteps(offers, "offramp"),
    };
    const { onramp, offramp } = this.#steps;
    const nothing = onramp.length + offramp.length === 0;
    byId("chart").hidden = nothing;
    byId("chart-empty").hidden = !nothing;
    byId("readout").hidden = nothing;
    setText(byId("chart-empty"), otherwise);
    setText(byId("depth-currency"), currency);
    setAttribute(byId("chart"), "aria-label", `Depth by rate. ${this.#describe()}`);
    this.#tabulate();
    this.#chart.show(onramp, offramp);
    this.#read(null);
  }

  /** The whole chart in a sentence. */
  #describe() {
    const { onramp, offramp } = this.#steps;
    const [bought, sold] = [drawnSteps(onramp), drawnSteps(offramp)];
    const sides = [
      describeSide("sold", "down to", "to", sold.at(-1), this.#currency),
      describeSide("bought", "up to", "from", bought.at(-1), this.#currency),
    ];
    const beyond = onramp.length + offramp.length - bought.length - sold.length;
    const rest = beyond === 0 ? "" : ` ${beyond} far worse rates are in the table alone.`;
    return `${sides.join(" ")}${rest}`;
  }

  /**
   * What lies under the pointer, or the whole when it is elsewhere.
   *
   * @param {{ side: "onramp" | "offramp", step: Step } | null} at
   */
  #read(at) {
    setText(byId("readout"), at === null ? this.#describe() : this.#say(at.side, at.step));
    byId("readout").classList.toggle("at-rest", at === null);
  }

  /**
   * @param {"onramp" | "offramp"} side
   * @param {Step} step
   */
  #say(side, step) {
    const rate = `${formatUnits(step.rate, 2)} ${this.#currency}`;
    const bound = side === "onramp" ? `Buy at up to ${rate}` : `Sell at ${rate} or more`;
    return `${bound}: ${formatUnits(step.available)} USDC from ${count(step.providers)}`;
  }

  /** A table that is folded away is not made: it may have a thousand rows. */
  #tabulate() {
    if (!this.#asTable.open) return;
    const body = within(byId("depth-table"), "tbody");
    const rows = [
      ...this.#steps.offramp.map((step) => stepRow("Sell", step)),
      ...this.#steps.onramp.map((step) => stepRow("Buy", step)),
    ];
    body.replaceChildren(...rows);
  }
}

/**
 * @param {string} done
 * @param {string} reach
 * @param {string} by
 * @param {Step | undefined} last the worst rate that is drawn
 * @param {string} currency
 */
function describeSide(done, reach, by, last, currency) {
  if (last === undefined) return `Nothing can be ${done}.`;
  const rate = `${formatUnits(last.rate, 2)} ${currency}`;
  const amount = formatUnits(last.available);
  return `${amount} USDC can be ${done} ${reach} ${rate}, ${by} ${count(last.providers)}.`;
}

/** @param {number} providers */
function count(providers) {
  return `${providers} ${providers === 1 ? "provider" : "providers"}`;
}

/**
 * @param {string} side
 * @param {Step} step
 */
function stepRow(side, step) {
  return make(
    "tr",
    {},
    make("td", {}, side),
    make("td", { class: "number" }, formatUnits(step.rate, 2)),
    make("td", { class: "number" }, formatUnits(step.available)),
    make("td", { class: "number" }, String(step.providers)),
  );
}
