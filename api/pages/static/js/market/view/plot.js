// @ts-check
/**
 * What all charts have in common: a plot that is as wide as its parent, in the colours of the page.
 */

import vendored from "../../../vendor/uplot/uPlot.esm.js";

// The package's own types, which lie beside another build of the same library.
export const uPlot = /** @type {typeof import("uplot")} */ (/** @type {unknown} */ (vendored));

/** @typedef {[number[], ...(number | null)[][]]} Columns */

/**
 * Colours and axes, read from the styles of the parent.
 *
 * @typedef {object} Theme
 * @property {(name: string) => string} colour
 * @property {{ stroke: string, font: string, ticks: object, grid: object }} axis
 */

/**
 * Options of a chart without its size.
 *
 * @typedef {Omit<import("uplot").Options, "width" | "height">} Options
 */

export class Chart {
  #parent;
  #height;
  #optionsOf;
  /** @type {import("uplot") | null} */
  #plot = null;

  /**
   * @param {HTMLElement} parent
   * @param {number} height in pixels
   * @param {(theme: Theme) => Options} optionsOf
   */
  constructor(parent, height, optionsOf) {
    this.#parent = parent;
    this.#height = height;
    this.#optionsOf = optionsOf;
    new ResizeObserver(() => this.#fit()).observe(parent);
    // Colours are read when the plot is made.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#renew());
  }

  /** @param {Columns} data */
  show(data) {
    if (this.#plot === null) this.#plot = this.#draw(data);
    else this.#plot.setData(data);
    this.#fit();
  }

  #renew() {
    if (this.#plot === null) return;
    const data = /** @type {Columns} */ (this.#plot.data);
    this.#plot.destroy();
    this.#plot = this.#draw(data);
  }

  #fit() {
    const width = this.#parent.clientWidth;
    if (this.#plot !== null && width > 0 && width !== this.#plot.width)
      this.#plot.setSize({ width, height: this.#height });
  }

  /** @param {Columns} data */
  #draw(data) {
    const common = {
      width: this.#parent.clientWidth || 600,
      height: this.#height,
      padding: /** @type {[number, number, number, number]} */ ([8, 12, 0, 0]),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    };
    return new uPlot({ ...common, ...this.#optionsOf(themeOf(this.#parent)) }, data, this.#parent);
  }
}

/**
 * @param {HTMLElement} parent
 * @returns {Theme}
 */
function themeOf(parent) {
  const style = getComputedStyle(parent);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    colour,
    axis: {
      stroke: colour("muted"),
      font: `12px ${style.fontFamily}`,
      ticks: { show: false },
      grid: { stroke: colour("line"), width: 1 },
    },
  };
}
