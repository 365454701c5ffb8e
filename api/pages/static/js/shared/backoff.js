// @ts-check
/**
 * Exponential backoff with jitter: pauses from 1 s, each up to twice as long as the last.
 */

const FIRST = 1_000;

export class Backoff {
  #longest;
  #failures = 0;

  /** @param {number} longest milliseconds */
  constructor(longest) {
    this.#longest = longest;
  }

  /** It has worked: the next pause is short again. */
  reset() {
    this.#failures = 0;
  }

  /**
   * It has failed once more.
   *
   * @returns {number} milliseconds to wait: at least half of the whole pause, and not the same for
   *   all pages that wait for one server
   */
  next() {
    const pause = Math.min(this.#longest, FIRST * 2 ** this.#failures);
    this.#failures += 1;
    return (pause / 2) * (1 + Math.random());
  }
}
