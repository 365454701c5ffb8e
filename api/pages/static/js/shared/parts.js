// @ts-check
/**
 * Small parts that several pages show: texts to copy, links to an explorer, times of day.
 */

import { explorerPage } from "./chains.js";
import { formatTime } from "./clock.js";
import { make } from "./dom.js";

/**
 * The first and last letters of an address, hash or id.
 *
 * @param {string} text
 */
export function shorten(text) {
  return `${text.slice(0, text.startsWith("0x") ? 6 : 4)}…${text.slice(-4)}`;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} false: the browser does not allow it
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    // A page that was not loaded over https has no clipboard at all.
    if (error instanceof DOMException || error instanceof TypeError) return false;
    throw error;
  }
}

/**
 * @param {string} text
 * @param {string} what the button's name for those who do not see it
 */
function copyButton(text, what) {
  const button = make("button", { type: "button", class: "quiet copy" }, "Copy");
  button.setAttribute("aria-label", `Copy ${what}`);
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text)) ? "Copied" : "Not allowed";
    setTimeout(() => (button.textContent = "Copy"), 2_000);
  });
  return button;
}

/**
 * A text that is copied by a button, such as an address to pay: whole, never shortened.
 *
 * @param {string} text
 * @param {string} what
 */
export function copyable(text, what) {
  const shown = make("code", { class: "address" }, text);
  return make("span", { class: "copyable" }, shown, copyButton(text, what));
}

/**
 * A link to the chain's explorer in a tab of its own; null where the network names none.
 *
 * @param {string | null} chain CAIP-2
 * @param {string} id as `explorerPage` takes it
 * @param {Node | string} shown
 * @param {string} what it is, for assistive technology
 */
export function explorerLink(chain, id, shown, what) {
  const href = explorerPage(chain, id);
  if (href === null) return null;
  const attributes = { href, target: "_blank", rel: "noopener noreferrer", class: "explorer" };
  return make("a", { ...attributes, title: id, "aria-label": `${what}, in the explorer` }, shown);
}

/**
 * A transaction or account by its first and last letters: a link to the explorer or, without one,
 * a button that copies all of it.
 *
 * @param {string | null} chain CAIP-2
 * @param {string} id as `explorerPage` takes it
 * @param {string} what
 * @param {string} [text] shown instead of the letters
 */
export function reference(chain, id, what, text) {
  const shown = text ?? make("code", { class: "address" }, shorten(id));
  const name = `${what} ${shorten(id)}`;
  const link = explorerLink(chain, id, shown, name);
  return link ?? make("span", { class: "reference" }, shown, " ", copyButton(id, name));
}

/**
 * A time of day that tells its exact moment to machines and on hover.
 *
 * @param {string} time ISO 8601
 */
export function timeElement(time) {
  return make("time", { datetime: time, title: time }, formatTime(time));
}
