// @ts-check
/**
 * How old the data is, by the time of day of the server and not of this machine; times for people.
 */

/** Seconds after which the data counts as stale: ledgers close about every five. */
export const STALE_AFTER = 60;

export class Clock {
  /** Server's time of day minus this page's, in milliseconds. */
  #offset = 0;

  /**
   * Take the server's word of what time it is.
   *
   * @param {string | null} date the `Date` header of an answer that has just arrived
   */
  adjust(date) {
    const told = date === null ? NaN : Date.parse(date);
    // The header says whole seconds: half of one is the best guess at the rest.
    if (!Number.isNaN(told)) this.#offset = told + 500 - Date.now();
  }

  /** Milliseconds since 1970 by the server's clock. */
  now() {
    return Date.now() + this.#offset;
  }

  /**
   * Whole seconds since a time of day, none before it.
   *
   * @param {string} time ISO 8601
   */
  secondsSince(time) {
    return Math.max(0, Math.floor((this.now() - Date.parse(time)) / 1000));
  }
}

/**
 * A time of day where the reader is, with its date when that is not today: `17:05:03`,
 * `24 Nov, 17:05:03`.
 *
 * @param {string | number} moment ISO 8601, or milliseconds since 1970
 */
export function formatTime(moment) {
  const at = new Date(moment);
  const today = new Date();
  const time = at.toLocaleTimeString("en-GB");
  if (at.toDateString() === today.toDateString()) return time;
  /** @type {Intl.DateTimeFormatOptions} */
  const format = { day: "numeric", month: "short" };
  if (at.getFullYear() !== today.getFullYear()) format.year = "numeric";
  return `${at.toLocaleDateString("en-GB", format)}, ${time}`;
}

/**
 * A span of time in two units at most: `7 s`, `2 min 05 s`, `3 h 20 min`, `4 d 02 h`.
 *
 * @param {number} seconds whole
 */
export function formatSpan(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return join(minutes, "min", seconds % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return join(hours, "h", minutes % 60, "min");
  return join(Math.floor(hours / 24), "d", hours % 24, "h");
}

/**
 * A span of time in its largest unit: `7 s`, `2 min`, `3 h`, `4 d`.
 *
 * @param {number} seconds whole
 */
export function formatAge(seconds) {
  return formatSpan(seconds).split(" ").slice(0, 2).join(" ");
}

/**
 * @param {number} large
 * @param {string} unit
 * @param {number} small
 * @param {string} smallUnit
 */
function join(large, unit, small, smallUnit) {
  return `${large} ${unit}${small === 0 ? "" : ` ${String(small).padStart(2, "0")} ${smallUnit}`}`;
}
