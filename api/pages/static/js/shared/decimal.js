// @ts-check
/**
 * Money and rates, exactly: decimal text to whole units and back. Units are of the 7th decimal where
 * nothing else is said.
 *
 * Nothing here is a floating-point number but `toPixels`, which is for drawing.
 */

export const DECIMALS = 7;
const UNIT = 10n ** BigInt(DECIMALS);
const SHAPE = /^(\d+)(?:\.(\d{1,7}))?$/;

/**
 * Units of a decimal text, as the API writes and accepts it.
 *
 * @param {string} text
 * @returns {bigint}
 * @throws {RangeError} on anything else than a number of 0 or more with up to 7 decimals
 */
export function parseUnits(text) {
  const match = SHAPE.exec(text);
  if (match === null) throw new RangeError(`not a decimal of up to ${DECIMALS} places: ${text}`);
  const [, whole = "", fraction = ""] = match;
  return BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}

/**
 * Whether a text is what `parseUnits` reads.
 *
 * @param {string} text
 */
export function isDecimal(text) {
  return SHAPE.test(text);
}

/**
 * The whole part with its thousands grouped, and the decimals: as many as there are, and no fewer
 * than `least`.
 *
 * @param {bigint} units
 * @param {number} [least]
 * @param {number} [decimals] of a unit
 * @returns {{ whole: string, fraction: string }}
 */
export function splitUnits(units, least = 0, decimals = DECIMALS) {
  const unit = 10n ** BigInt(decimals);
  const size = units < 0n ? -units : units;
  const sign = units < 0n ? "−" : "";
  const whole = (size / unit).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const digits = (size % unit).toString().padStart(decimals, "0").replace(/0+$/, "");
  return { whole: sign + whole, fraction: digits.padEnd(least, "0") };
}

/**
 * All digits of an amount, for people: `1,234.5`.
 *
 * @param {bigint} units
 * @param {number} [least] decimals at the least
 * @param {number} [decimals] of a unit
 */
export function formatUnits(units, least = 0, decimals = DECIMALS) {
  const { whole, fraction } = splitUnits(units, least, decimals);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/**
 * Basis points as a percentage: 50 is `0.5 %`.
 *
 * @param {bigint | number} bps
 */
export function formatBps(bps) {
  return `${formatUnits((BigInt(bps) * UNIT) / 100n)} %`;
}

/**
 * How far `high` lies above `low`, in whole basis points of `low`, rounded to nearest.
 *
 * @param {bigint} high
 * @param {bigint} low more than 0
 */
export function spreadBps(high, low) {
  const twice = ((high - low) * 20_000n) / low;
  return (twice + (twice < 0n ? -1n : 1n)) / 2n;
}

/**
 * A length for a chart: close enough to draw, never to be shown or reckoned with.
 *
 * @param {bigint} units
 */
export function toPixels(units) {
  return Number(units) / Number(UNIT);
}
