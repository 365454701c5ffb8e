// @ts-check
/**
 * Hands the reader a file that was made here.
 */

import { make } from "../../shared/dom.js";

/**
 * @param {string} name
 * @param {string} text
 */
export function downloadCsv(name, text) {
  // The mark at the beginning has spreadsheets read UTF-8.
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
