// @ts-check
/**
 * A QR code, drawn on a canvas: no markup is made from what it says.
 */

import * as vendored from "../../../vendor/lean-qr/lean-qr.js";
import { make } from "../../shared/dom.js";

// The package's own types, which lie beside another build of the same library.
const { generate } = /** @type {typeof import("lean-qr")} */ (/** @type {unknown} */ (vendored));

/** Cameras need light around the code, also on a dark page. */
const LIGHT = /** @type {const} */ ([255, 255, 255, 255]);
const DARK = /** @type {const} */ ([0, 0, 0, 255]);

/**
 * The text itself and no payment request (EIP-681): wallets that do not know those would pay the
 * token's contract.
 *
 * @param {string} text
 * @param {string} what it is of
 */
export function qrCode(text, what) {
  const canvas = make("canvas", { class: "qr", role: "img", "aria-label": `QR code of ${what}` });
  generate(text).toCanvas(canvas, { on: DARK, off: LIGHT, pad: 4 });
  return canvas;
}
