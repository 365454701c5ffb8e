// @ts-check
/**
 * The headers of a table as buttons that sort it.
 */

import { nextSorting } from "../core/sorting.js";
import { setText, within } from "../../shared/dom.js";

/** @typedef {import("../core/sorting.js").Sorting} Sorting */

export class Sorter {
  /** @type {Sorting} */
  sorting = null;
  #table;
  #said;
  #otherwise;

  /**
   * @param {HTMLElement} table
   * @param {HTMLElement} said where the order is named
   * @param {() => void} draw asks for the page to be drawn again
   */
  constructor(table, said, draw) {
    this.#table = table;
    this.#said = said;
    this.#otherwise = said.textContent ?? "";
    table.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-sort]") : null;
      if (!(button instanceof HTMLElement)) return;
      this.sorting = nextSorting(this.sorting, button.dataset["sort"] ?? "");
      this.#show();
      draw();
    });
  }

  #show() {
    for (const header of this.#table.querySelectorAll("th:has([data-sort])")) {
      const button = within(header, "[data-sort]");
      const isSorted = button.dataset["sort"] === this.sorting?.column;
      if (isSorted) header.setAttribute("aria-sort", directionOf(this.sorting));
      else header.removeAttribute("aria-sort");
      if (isSorted) setText(this.#said, `by ${button.textContent}, ${directionOf(this.sorting)}`);
    }
    if (this.sorting === null) setText(this.#said, this.#otherwise);
  }
}

/** @param {Sorting} sorting */
function directionOf(sorting) {
  return sorting?.descending ? "descending" : "ascending";
}
