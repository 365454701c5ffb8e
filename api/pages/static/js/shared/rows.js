// @ts-check
/**
 * A table's body that follows a list: a row is made once for each key and told what it shows.
 */

import { setChildren } from "./dom.js";

/**
 * @template T
 * @typedef {object} Row
 * @property {HTMLTableRowElement} element
 * @property {(item: T) => void} show says what the item is now
 */

/** @template T */
export class Rows {
  #body;
  #keyOf;
  #make;
  /** @type {Map<string, { row: Row<T>, item: T }>} */
  #rows = new Map();

  /**
   * @param {HTMLTableSectionElement} body
   * @param {(item: T) => string} keyOf
   * @param {(item: T) => Row<T>} make
   */
  constructor(body, keyOf, make) {
    this.#body = body;
    this.#keyOf = keyOf;
    this.#make = make;
  }

  /**
   * Show a list. Items are compared by identity: one that has changed is another object.
   *
   * @param {readonly T[]} items
   * @param {boolean} marked whether a change is to be pointed out to the eye
   */
  show(items, marked) {
    // What fills an empty table is all new: there is nothing to point out.
    const points = marked && this.#rows.size > 0;
    /** @type {Map<string, { row: Row<T>, item: T }>} */
    const shown = new Map();
    for (const item of items) {
      const key = this.#keyOf(item);
      const known = this.#rows.get(key);
      const row = known?.row ?? this.#make(item);
      row.show(item);
      if (points && known?.item !== item) point(row.element);
      shown.set(key, { row, item });
    }
    this.#rows = shown;
    setChildren(
      this.#body,
      [...shown.values()].map(({ row }) => row.element),
    );
  }
}

/**
 * Let a row light up and fade, unless the reader wants no motion.
 *
 * @param {HTMLElement} element
 */
function point(element) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const colour = getComputedStyle(element).getPropertyValue("--flash");
  element.animate([{ backgroundColor: colour }, { backgroundColor: "transparent" }], {
    duration: 1400,
    easing: "ease-out",
  });
}
