// @ts-check
/**
 * Asks for the status again and again while the page is visible; less often while nothing answers.
 */

import { Backoff } from "../shared/backoff.js";
import { ask, NotReached, Refused, ROOT } from "../shared/rest.js";

/**
 * @typedef {object} Problem
 * @property {string} kind
 * @property {string} text
 *
 * @typedef {object} Chain
 * @property {string} chain
 * @property {string} name
 * @property {number | null} height
 * @property {number | null} head_height
 * @property {number | null} final_height
 * @property {number | null} lag_seconds
 * @property {number | null} age_seconds
 * @property {string | null} reason
 *
 * @typedef {object} Lane
 * @property {string} route
 * @property {string} source_chain
 * @property {string} dest_chain
 * @property {boolean} available
 * @property {number} expected_seconds
 * @property {number | null} median_seconds
 * @property {number | null} p90_seconds
 *
 * @typedef {object} Incident
 * @property {string} chain
 * @property {string} kind
 * @property {string} began_at
 * @property {string | null} ended_at
 *
 * The status as the API writes it.
 *
 * @typedef {object} Status
 * @property {string} as_of
 * @property {string} verdict
 * @property {string} sentence
 * @property {Problem[]} problems
 * @property {Chain[]} chains
 * @property {Lane[]} routes
 * @property {Incident[]} incidents
 * @property {string | null} at
 * @property {boolean | null} adds_up
 * @property {Record<string, number>} under_way
 * @property {Record<string, number>} findings
 */

/**
 * Why there is no answer. Without a reason nothing answered; otherwise the API gave it.
 *
 * @typedef {{ reason: string | null, retryAt: number }} Failure `retryAt` by `performance.now()`
 */

/** Milliseconds. */
const EVERY = 10_000;
const LONGEST_PAUSE = 60_000;
/** A request that takes longer is given up. */
const PATIENCE = 15_000;

const STATUS = new URL("v1/status", ROOT);

export class Poll {
  #onStatus;
  #onFailure;
  #backoff = new Backoff(LONGEST_PAUSE);
  #timer = 0;
  #asking = false;

  /**
   * @param {(status: Status, date: string | null) => void} onStatus
   * @param {(failure: Failure) => void} onFailure
   */
  constructor(onStatus, onFailure) {
    this.#onStatus = onStatus;
    this.#onFailure = onFailure;
  }

  /** Ask now, and again from now on. */
  start() {
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => this.#hurry());
    void this.#ask();
  }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      const { body, date } = await ask(STATUS, { signal: AbortSignal.timeout(PATIENCE) });
      this.#backoff.reset();
      this.#onStatus(/** @type {Status} */ (body), date);
      this.#schedule(EVERY);
    } catch (error) {
      if (!(error instanceof NotReached || error instanceof Refused)) throw error;
      const pause = this.#backoff.next();
      const reason = error.cause === undefined ? error.message : null;
      this.#onFailure({ reason, retryAt: performance.now() + pause });
      this.#schedule(pause);
    } finally {
      this.#asking = false;
    }
  }

  /** @param {number} pause */
  #schedule(pause) {
    if (!document.hidden) this.#timer = setTimeout(() => void this.#ask(), pause);
  }

  /** Do not wait when the network is back or the page is visible again; stop while it is not. */
  #hurry() {
    clearTimeout(this.#timer);
    if (!document.hidden) void this.#ask();
  }
}
