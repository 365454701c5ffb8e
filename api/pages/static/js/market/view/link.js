// @ts-check
/**
 * How old the data is and whether more is coming: on top of the page, always.
 */

import { formatSpan, STALE_AFTER } from "../../shared/clock.js";
import { byId, setAttribute, setText, within } from "../../shared/dom.js";

/** @typedef {import("../feed/stream.js").Link} Link */
/** @typedef {"connecting" | "live" | "stale" | "waiting"} Phase */

/**
 * @typedef {object} Freshness
 * @property {Link} link
 * @property {number | null} ledger null before the first
 * @property {number | null} age seconds since the ledger closed
 */

/**
 * @param {Freshness} freshness
 * @returns {Phase}
 */
export function phaseOf({ link, age }) {
  if (age !== null && age >= STALE_AFTER) return "stale";
  if (link.phase === "open") return "live";
  return link.phase;
}

/** @type {Record<Phase, string>} */
const NAMES = { connecting: "Connecting", live: "Live", stale: "Stale", waiting: "Reconnecting" };

export class LinkView {
  /** @type {Phase} */
  #announced = "connecting";

  /** @param {Freshness} freshness */
  show(freshness) {
    const phase = phaseOf(freshness);
    const { ledger, age } = freshness;
    setAttribute(byId("link"), "data-phase", phase);
    setText(byId("phase"), NAMES[phase]);
    byId("as-of").hidden = ledger === null;
    if (ledger !== null) setText(byId("ledger"), ledger.toLocaleString("en"));
    within(byId("as-of"), ".age").hidden = age === null;
    if (age !== null) setText(byId("age"), formatSpan(age));
    const banner = explain(phase, freshness);
    byId("banner").hidden = banner === "";
    setText(byId("banner"), banner);
    this.#announce(phase);
  }

  /**
   * Tell those who cannot see the lamp; once for each turn of events, and never of the clock.
   *
   * @param {Phase} phase
   */
  #announce(phase) {
    if (phase === this.#announced || phase === "connecting") return;
    this.#announced = phase;
    setText(byId("announcement"), `Market data: ${NAMES[phase].toLowerCase()}.`);
  }
}

/**
 * What is wrong, in a sentence; empty when nothing is.
 *
 * @param {Phase} phase
 * @param {Freshness} freshness
 */
function explain(phase, { link, age, ledger }) {
  const next = link.phase === "waiting" ? ` ${describeRetry(link.retryAt)}` : "";
  if (phase === "stale" && age !== null)
    return `The last ledger closed ${formatSpan(age)} ago: rates and balances may have changed since.${next}`;
  if (phase !== "waiting") return "";
  const shown = ledger === null ? "" : " What you see is as of the ledger above.";
  return `The connection was lost.${shown}${next}`;
}

/** @param {number} retryAt */
function describeRetry(retryAt) {
  const seconds = Math.max(0, Math.ceil((retryAt - performance.now()) / 1000));
  return seconds === 0 ? "Trying again now." : `Trying again in ${seconds} s.`;
}
