// @ts-check
/**
 * Small parts that several views show.
 */

import { chainName } from "../../shared/chains.js";
import { make } from "../../shared/dom.js";

/**
 * A list of names and values.
 *
 * @param {readonly (readonly [string, string | Node])[]} rows
 */
export function facts(rows) {
  const pairs = rows.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value)),
  );
  return make("dl", { class: "facts" }, ...pairs);
}

/**
 * A chain's name and an address on it.
 *
 * @param {string} chain CAIP-2
 * @param {string} address
 */
export function end(chain, address) {
  return make(
    "span",
    { class: "end" },
    chainName(chain),
    make("code", { class: "address" }, address),
  );
}

/**
 * What is long and rarely read.
 *
 * @param {string} summary
 * @param {...(Node | string)} children
 */
export function folded(summary, ...children) {
  return make("details", { class: "folded" }, make("summary", {}, summary), ...children);
}

/**
 * @param {string} text
 * @param {() => void} onClick
 * @param {string} [look] `main` or `quiet`
 */
export function button(text, onClick, look = "main") {
  const element = make("button", { type: "button", class: look }, text);
  element.addEventListener("click", onClick);
  return element;
}
