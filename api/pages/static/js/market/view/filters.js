// @ts-check
/**
 * The form of filters.
 */

import { ANY, isSizeBad } from "../core/filters.js";
import { byId, make, setAttribute, setText } from "../../shared/dom.js";

/** @typedef {import("../core/filters.js").Filters} Filters */

export class FiltersView {
  /** @type {HTMLFormElement} */
  #form = byId("filters");

  /** @param {(filters: Filters) => void} change */
  constructor(change) {
    this.#form.addEventListener("input", ({ target }) => {
      // One size at a time: the last that was typed.
      const [amount, fiat] = [this.#field("amount"), this.#field("fiat")];
      if (target === amount || this.#field("currency").value === "") fiat.value = "";
      if (target === fiat) amount.value = "";
      change(this.#read());
    });
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.#form.addEventListener("reset", (event) => {
      event.preventDefault();
      change({ ...ANY });
      this.#field("amount").focus();
    });
  }

  /**
   * @param {Filters} filters
   * @param {{ currencies: string[], rails: string[] }} choices
   */
  show(filters, choices) {
    this.#choose("currency", choices.currencies, filters.currency);
    this.#choose("rail", choices.rails, filters.rail);
    for (const radio of this.#form.querySelectorAll("input[type=radio]")) {
      const input = /** @type {HTMLInputElement} */ (radio);
      input.checked = input.value === filters.direction;
    }
    byId("fiat-size").hidden = filters.currency === "";
    setText(byId("fiat-unit"), filters.currency);
    const bad = [this.#showSize("amount", filters), this.#showSize("fiat", filters)].includes(true);
    setText(
      byId("amount-problem"),
      bad ? "An order size is a number like 25 or 12.5, with up to 7 decimals." : "",
    );
    byId("clear").hidden = Object.values(filters).every((value) => value === "");
  }

  /**
   * @param {"amount" | "fiat"} name
   * @param {Filters} filters
   * @returns {boolean} whether it cannot be read
   */
  #showSize(name, filters) {
    const field = this.#field(name);
    if (field.value !== filters[name]) field.value = filters[name];
    const isBad = isSizeBad(filters[name]);
    setAttribute(field, "aria-invalid", String(isBad));
    return isBad;
  }

  /** @returns {Filters} */
  #read() {
    const data = new FormData(this.#form);
    /** @param {string} name */
    const text = (name) => String(data.get(name) ?? "");
    const direction = /** @type {Filters["direction"]} */ (text("direction"));
    const [currency, rail] = [text("currency"), text("rail")];
    return { direction, currency, rail, amount: text("amount"), fiat: text("fiat") };
  }

  /**
   * Offer these values, and the chosen one even while nobody has it.
   *
   * @param {string} name
   * @param {readonly string[]} values
   * @param {string} chosen
   */
  #choose(name, values, chosen) {
    const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (this.#field(name)));
    const wanted = ["", ...new Set(chosen === "" ? values : [...values, chosen].sort())];
    const there = [...select.options].map((option) => option.value);
    if (wanted.join() !== there.join())
      select.replaceChildren(
        ...wanted.map((value) => make("option", { value }, value === "" ? "Any" : value)),
      );
    if (select.value !== chosen) select.value = chosen;
  }

  /**
   * @param {string} name
   * @returns {HTMLInputElement}
   */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
  }
}
