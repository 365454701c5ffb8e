// @ts-check
/**
 * Where in the market the reader is, which the page's address says.
 */

import { ANY, readFilters, writeFilters } from "./filters.js";

/**
 * @typedef {object} Place
 * @property {string} provider whose page it is; empty on the whole market
 * @property {import("./filters.js").Filters} filters
 */

/**
 * @param {URLSearchParams} query
 * @returns {Place}
 */
export function readPlace(query) {
  const provider = query.get("provider") ?? "";
  return { provider, filters: provider === "" ? readFilters(query) : { ...ANY } };
}

/**
 * The relative address of a place.
 *
 * @param {Place} place
 */
export function writePlace({ provider, filters }) {
  const query = provider === "" ? writeFilters(filters) : new URLSearchParams({ provider });
  return query.size === 0 ? "./" : `./?${query}`;
}
