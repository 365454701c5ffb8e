// @ts-check
/**
 * Chains, routes and incidents, a row each.
 */

import { formatSpan, formatTime } from "../shared/clock.js";
import { byId, make, setText, within } from "../shared/dom.js";
import { Rows } from "../shared/rows.js";
import { describeIncident, describeReason, describeRoute } from "./words.js";

/** @typedef {import("./poll.js").Status} Status */
/** @typedef {import("./poll.js").Chain} Chain */
/** @typedef {import("./poll.js").Lane} Lane */
/** @typedef {import("./poll.js").Incident} Incident */

/**
 * @template T
 * @typedef {(item: T, cells: HTMLElement[]) => void} Show
 */

/** A table with the text that stands in its place while it is empty. */
/** @template T */
class Table {
  #rows;
  #table;
  #empty;

  /**
   * @param {string} id
   * @param {(item: T) => string} keyOf
   * @param {[label: string, kind: string][]} columns
   * @param {Show<T>} show
   */
  constructor(id, keyOf, columns, show) {
    this.#table = byId(id);
    this.#empty = byId(`${id}-empty`);
    /** @type {HTMLTableSectionElement} */
    const body = within(this.#table, "tbody");
    this.#table.hidden = true;
    this.#rows = new Rows(body, keyOf, () => {
      const cells = columns.map(([label, kind]) =>
        make("td", { role: "cell", "data-label": label, class: kind }),
      );
      const element = make("tr", { role: "row" }, ...cells);
      return { element, show: (/** @type {T} */ item) => show(item, cells) };
    });
  }

  /**
   * @param {readonly T[]} items
   * @param {string} none said of an empty list
   */
  show(items, none) {
    this.#rows.show(items, false);
    this.#table.hidden = items.length === 0;
    this.#empty.hidden = items.length > 0;
    setText(this.#empty, none);
  }
}

export class Tables {
  /** Seconds since the status was read. */
  #age = 0;
  /** @type {Map<string, string>} */
  #names = new Map();
  #chains = new Table(
    "chains",
    (/** @type {Chain} */ each) => each.chain,
    [
      ["Chain", "lead"],
      ["State", "status-of"],
      ["Height", "number"],
      ["Behind its head", "number"],
      ["Final up to", "number"],
      ["Last block read", "number"],
    ],
    (each, cells) => this.#showChain(each, cells),
  );
  #routes = new Table(
    "routes",
    (/** @type {Lane} */ each) => `${each.route} ${each.source_chain} ${each.dest_chain}`,
    [
      ["Route", "lead"],
      ["State", "status-of"],
      ["From", ""],
      ["To", ""],
      ["Usual time", "number"],
      ["Today’s median", "number"],
      ["9 of 10 within", "number"],
    ],
    (each, cells) => this.#showRoute(each, cells),
  );
  #incidents = new Table(
    "incidents",
    (/** @type {Incident} */ each) => `${each.chain} ${each.kind} ${each.began_at}`,
    [
      ["What", "lead wide"],
      ["Chain", "wide"],
      ["Began", ""],
      ["Ended", ""],
    ],
    (each, cells) => this.#showIncident(each, cells),
  );

  /**
   * @param {Status} status
   * @param {number} age whole seconds since it was read
   */
  show(status, age) {
    this.#age = age;
    this.#names = new Map(status.chains.map(({ chain, name }) => [chain, name]));
    this.#chains.show(status.chains, "No chain is followed.");
    this.#routes.show(status.routes, "No route is served.");
    this.#incidents.show(status.incidents, "None.");
  }

  /**
   * @param {Chain} chain
   * @param {HTMLElement[]} cells
   */
  #showChain(chain, cells) {
    const { height, head_height, final_height, lag_seconds, age_seconds } = chain;
    const behind =
      lag_seconds === null || height === null || head_height === null
        ? "–"
        : head_height <= height
          ? "at its head"
          : `${formatSpan(lag_seconds)}, ${count(head_height - height)}`;
    const final =
      height === null || final_height === null
        ? "–"
        : final_height >= height
          ? `${group(final_height)}, all`
          : `${group(final_height)}, ${count(height - final_height)} to go`;
    const read = age_seconds === null ? "–" : `${formatSpan(age_seconds + this.#age)} ago`;
    fill(cells, [chain.name, "", height === null ? "–" : group(height), behind, final, read]);
    showSmall(cells[0], chain.name, chain.chain);
    showState(cells[1], chain.reason === null, describeReason(chain.reason));
  }

  /**
   * @param {Lane} lane
   * @param {HTMLElement[]} cells
   */
  #showRoute(lane, cells) {
    const { median_seconds, p90_seconds, available } = lane;
    const median = median_seconds === null ? "none yet" : formatSpan(median_seconds);
    const most = p90_seconds === null ? "not known" : formatSpan(p90_seconds);
    const [source, dest] = [this.#name(lane.source_chain), this.#name(lane.dest_chain)];
    const usual = formatSpan(lane.expected_seconds);
    fill(cells, [describeRoute(lane.route), "", source, dest, usual, median, most]);
    showState(cells[1], available, available ? "available" : "not available");
  }

  /**
   * @param {Incident} incident
   * @param {HTMLElement[]} cells
   */
  #showIncident(incident, cells) {
    const { began_at, ended_at } = incident;
    const ended = ended_at === null ? "not yet" : formatTime(ended_at);
    const what = describeIncident(incident.kind);
    fill(cells, [what, this.#name(incident.chain), formatTime(began_at), ended]);
  }

  /** @param {string} chain */
  #name(chain) {
    return this.#names.get(chain) ?? chain;
  }
}

/**
 * @param {HTMLElement[]} cells
 * @param {string[]} texts an empty one is left alone
 */
function fill(cells, texts) {
  for (const [index, cell] of cells.entries()) {
    const text = texts[index] ?? "";
    if (text !== "" && cell.childElementCount === 0) setText(cell, text);
  }
}

/**
 * @param {HTMLElement | undefined} cell
 * @param {string} text
 * @param {string} small
 */
function showSmall(cell, text, small) {
  if (cell !== undefined && cell.childElementCount === 0)
    cell.replaceChildren(text, make("small", {}, small));
}

/**
 * @param {HTMLElement | undefined} cell
 * @param {boolean} isGood
 * @param {string} text
 */
function showState(cell, isGood, text) {
  if (cell === undefined || cell.textContent === text) return;
  cell.replaceChildren(make("span", { class: `state ${isGood ? "good" : "bad"}` }, text));
}

/** @param {number} height */
const group = (height) => height.toLocaleString("en");

/** @param {number} blocks */
const count = (blocks) => `${group(blocks)} ${blocks === 1 ? "block" : "blocks"}`;
