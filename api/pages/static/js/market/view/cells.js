// @ts-check
/**
 * What the tables have in common: numbers under one another by their decimal point, addresses,
 * sides, times.
 */

import { splitUnits } from "../../shared/decimal.js";
import { make, setAttribute, setText } from "../../shared/dom.js";
import { shorten } from "../../shared/parts.js";

/** @typedef {import("../core/book.js").Direction} Direction */

/** What a direction is to the reader, who is the taker. */
export const SIDES = /** @type {const} */ ({ onramp: "Buy", offramp: "Sell" });

/** Decimals at full strength: the rest is exact, but rarely what is looked for. */
const MAIN_DECIMALS = 4;
/** More digits than any sensible amount: a stranger's. They may break where a line ends. */
const LONGEST = 14;

export class NumberCell {
  #whole = make("span");
  #main = make("span");
  #rest = make("span", { class: "rest" });
  #unit;

  /** @param {string} [unit] said after the number */
  constructor(unit = "") {
    this.#unit = make("span", { class: "unit" }, unit);
    const fraction = make("span", { class: "fraction" }, this.#main, this.#rest);
    this.element = make("span", { class: "figure" }, this.#whole, fraction);
    if (unit !== "") this.element.append(" ", this.#unit);
  }

  /**
   * @param {bigint} units
   * @param {number} [least] decimals at the least
   */
  show(units, least = 0) {
    const { whole, fraction } = splitUnits(units, least);
    this.element.classList.toggle("long", whole.length > LONGEST);
    setText(this.#whole, whole);
    setText(this.#main, fraction === "" ? "" : `.${fraction.slice(0, MAIN_DECIMALS)}`);
    setText(this.#rest, fraction.slice(MAIN_DECIMALS));
  }
}

/**
 * Room for the decimals of a column, so that its decimal points stand under one another.
 *
 * @param {HTMLElement} table
 * @param {string} column
 * @param {Iterable<bigint>} amounts
 * @param {number} [least]
 */
export function alignDecimals(table, column, amounts, least = 0) {
  let longest = least;
  for (const units of amounts)
    longest = Math.max(longest, splitUnits(units, least).fraction.length);
  const room = longest === 0 ? "0px" : `calc(${longest}ch + 0.3em)`;
  if (table.style.getPropertyValue(`--${column}`) !== room)
    table.style.setProperty(`--${column}`, room);
}

/**
 * A link to a provider's page; whole address for assistive technology and on hover.
 *
 * @param {string} address
 */
export function providerLink(address) {
  const link = make("a", { class: "address", "data-inside": "" }, shorten(address));
  setAttribute(link, "href", `./?${new URLSearchParams({ provider: address })}`);
  setAttribute(link, "title", address);
  setAttribute(link, "aria-label", `Provider ${shorten(address)}`);
  return link;
}

/**
 * The side of an offer or order, by word and colour.
 *
 * @param {Direction} direction
 */
export function sideTag(direction) {
  const kind = direction === "onramp" ? "buy" : "sell";
  return make("span", { class: `side ${kind}`, title: direction }, SIDES[direction]);
}

/**
 * A cell with the name of its column, which a phone shows beside it.
 *
 * @param {string} label
 * @param {string} kind CSS classes
 * @param {...(Node | string)} children
 */
export function cell(label, kind, ...children) {
  return make("td", { role: "cell", "data-label": label, class: kind }, ...children);
}
