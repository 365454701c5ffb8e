// @ts-check
/**
 * Amounts of `/v1`: whole base units as text, and people's decimals. BigInt, never a float.
 */

import { formatUnits } from "../../shared/decimal.js";

/** Decimals of native tokens, in which network fees are: wei and stroops. */
const NATIVE = { evm: 18, stellar: 7 };

/**
 * Decimals of USDC and USDT0 on a chain.
 *
 * @param {string} chain CAIP-2
 */
export function decimalsOf(chain) {
  return isStellar(chain) ? 7 : 6;
}

/**
 * Decimals of a chain's native token.
 *
 * @param {string} chain CAIP-2
 */
export function nativeDecimalsOf(chain) {
  return isStellar(chain) ? NATIVE.stellar : NATIVE.evm;
}

/** @param {string} chain CAIP-2 */
export function isStellar(chain) {
  return chain.startsWith("stellar:");
}

/**
 * Base units of a decimal text; null unless it is a number of 0 or more with so many decimals.
 *
 * @param {string} text
 * @param {number} decimals
 * @returns {bigint | null}
 */
export function parseAmount(text, decimals) {
  const match = /^(\d{1,30})(?:\.(\d+))?$/.exec(text.trim());
  if (match === null) return null;
  const [, whole = "", fraction = ""] = match;
  return fraction.length > decimals ? null : BigInt(whole + fraction.padEnd(decimals, "0"));
}

/**
 * All digits of an amount, without trailing zeros: `1,234.5`.
 *
 * @param {string | bigint} units base units, 0 or more
 * @param {number} decimals
 */
export function formatAmount(units, decimals) {
  return formatUnits(BigInt(units), 0, decimals);
}

/**
 * An amount of a coin with its name: `1.5 USDC`.
 *
 * @param {string | bigint} units
 * @param {string} chain CAIP-2
 * @param {string} coin
 */
export function formatCoin(units, chain, coin) {
  return `${formatAmount(units, decimalsOf(chain))} ${coin}`;
}

/**
 * The coin of a route: `usdc-deposit` is of USDC.
 *
 * @param {string} route
 */
export function coinOf(route) {
  return (route.split("-")[0] ?? "").toUpperCase();
}
