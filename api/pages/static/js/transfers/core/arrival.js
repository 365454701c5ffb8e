// @ts-check
/**
 * When a transfer arrives: the API's `eta`, and how long the last ones on its route took.
 */

import { formatSpan, formatTime } from "../../shared/clock.js";
import { ENDED } from "./words.js";

/** @typedef {import("../client/api.js").Transfer} Transfer */
/** @typedef {import("../client/api.js").Lane} Lane */

/** @typedef {{ route: string, source_chain: string, dest_chain: string }} Way */

/**
 * @param {Way} way
 * @param {readonly Lane[]} lanes of `/v1/status`
 */
function laneOf({ route, source_chain, dest_chain }, lanes) {
  return lanes.find(
    (each) =>
      each.route === route && each.source_chain === source_chain && each.dest_chain === dest_chain,
  );
}

/**
 * How long a transfer takes that has not begun.
 *
 * @param {Way} way
 * @param {readonly Lane[]} lanes of `/v1/status`
 * @returns {string} empty: not known
 */
export function usualTime(way, lanes) {
  const lane = laneOf(way, lanes);
  if (lane === undefined) return "";
  const { median_seconds: median, p90_seconds: p90, expected_seconds: expected } = lane;
  const parts = [];
  // A process of an older version has no 90th percentile.
  if (median != null) parts.push(`half of today's arrived within ${formatSpan(median)}`);
  if (p90 != null) parts.push(`9 of 10 of the last 30 days within ${formatSpan(p90)}`);
  return [...parts, `usual for the networks: ${formatSpan(expected)}`].join("; ");
}

/**
 * The transfer's start plus the 90th percentile of its route, in milliseconds since 1970. It is
 * measured as the API measures `p90_seconds`: from the first stage that did not wait for the owner.
 *
 * @param {Transfer} transfer
 * @param {readonly Lane[]} lanes of `/v1/status`
 * @returns {number | null} null: not known
 */
export function latestArrival(transfer, lanes) {
  const seconds = laneOf(transfer, lanes)?.p90_seconds ?? null;
  const began = transfer.timeline
    .filter(({ stage, at }) => at !== null && !stage.startsWith("AWAITING_") && !ENDED.has(stage))
    .map(({ at }) => Date.parse(/** @type {string} */ (at)));
  return seconds === null || began.length === 0 ? null : Math.min(...began) + 1_000 * seconds;
}

/**
 * @param {string} eta ISO 8601
 * @param {number | null} latest that of `latestArrival`
 * @param {number} now milliseconds since 1970
 * @returns {string} sentences; only of `eta` where `latest` is not later
 */
export function arrivalText(eta, latest, now) {
  const expected = Date.parse(eta);
  const hasSpread = latest !== null && latest > expected;
  const most = hasSpread ? `9 of 10 on this route arrive by ${formatTime(latest)}` : "";
  const left = Math.max(0, Math.round((expected - now) / 1000));
  if (left > 0) {
    const text = `Expected at ${formatTime(expected)}, in ${formatSpan(left)}`;
    return hasSpread ? `${text}; ${most}.` : `${text}.`;
  }
  const late = `Expected by ${formatTime(expected)}: it is later than usual, and goes on`;
  if (!hasSpread) return `${late}.`;
  if (now < latest) return `${late}; ${most}.`;
  return `${late}. 9 of 10 on this route had arrived by ${formatTime(latest)}.`;
}
