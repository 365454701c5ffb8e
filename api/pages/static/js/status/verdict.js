// @ts-check
/**
 * The verdict on top, how old it is, and whether more is coming. What is not known is not called
 * good: neither before the first answer, nor when answers stop.
 */

import { formatSpan, STALE_AFTER } from "../shared/clock.js";
import { byId, setAttribute, setText } from "../shared/dom.js";

/**
 * @typedef {object} Known
 * @property {import("./poll.js").Status | null} status the last answer
 * @property {number | null} age seconds since it was read
 * @property {import("./poll.js").Failure | null} failure of the last request
 */

/** @typedef {"connecting" | "live" | "stale" | "waiting"} Phase */

/** @type {Record<Phase, string>} */
const NAMES = {
  connecting: "Connecting",
  live: "Live",
  stale: "Stale",
  waiting: "No answer",
};

/**
 * @param {Known} known
 * @returns {Phase}
 */
export function phaseOf({ status, age, failure }) {
  if (failure !== null) return "waiting";
  if (status === null) return "connecting";
  return age !== null && age >= STALE_AFTER ? "stale" : "live";
}

/**
 * What stands on top.
 *
 * @param {Known} known
 * @returns {{ verdict: string, sentence: string }}
 */
export function conclude(known) {
  const { status, age, failure } = known;
  if (failure !== null) {
    const why =
      failure.reason === null
        ? "the API cannot be reached from here"
        : `the API answers with an error (${failure.reason})`;
    return {
      verdict: "unknown",
      sentence: `It is not known whether transfers are moving: ${why}.`,
    };
  }
  if (status === null)
    return { verdict: "asking", sentence: "Asking whether transfers are moving…" };
  if (age !== null && age >= STALE_AFTER)
    return {
      verdict: "unknown",
      sentence: `It is not known whether transfers are moving: the last status is ${formatSpan(age)} old.`,
    };
  return { verdict: status.verdict, sentence: status.sentence };
}

export class VerdictView {
  #announced = "";

  /** @param {Known} known */
  show(known) {
    const phase = phaseOf(known);
    setAttribute(byId("link"), "data-phase", phase);
    setText(byId("phase"), NAMES[phase]);
    byId("as-of").hidden = known.age === null;
    if (known.age !== null) setText(byId("age"), formatSpan(known.age));
    const { verdict, sentence } = conclude(known);
    setAttribute(byId("verdict"), "data-verdict", verdict);
    setText(byId("sentence"), sentence);
    const banner = explain(known);
    byId("banner").hidden = banner === "";
    setText(byId("banner"), banner);
    byId("main").classList.toggle("old", phase === "waiting" || phase === "stale");
    this.#announce(verdict, sentence);
  }

  /**
   * Once for each verdict: figures in a sentence may change every second.
   *
   * @param {string} verdict
   * @param {string} sentence
   */
  #announce(verdict, sentence) {
    if (verdict === this.#announced || verdict === "asking") return;
    this.#announced = verdict;
    setText(byId("announcement"), sentence);
  }
}

/** @param {Known} known */
function explain({ status, age, failure }) {
  if (failure === null) return "";
  const seconds = Math.max(0, Math.ceil((failure.retryAt - performance.now()) / 1000));
  const next = seconds === 0 ? "Asking again now." : `Asking again in ${seconds} s.`;
  if (status === null || age === null) return next;
  return `What you see below was read ${formatSpan(age)} ago: “${status.sentence}” ${next}`;
}
