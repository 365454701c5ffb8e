// @ts-check
/**
 * The drawing of prices by day. What is read off it is said elsewhere, from the exact figures.
 */

import { toPixels } from "../../shared/decimal.js";
import { Chart, uPlot } from "./plot.js";

/** @typedef {import("../core/history.js").PriceDay} PriceDay */

const HEIGHT = 200;

export class PriceChart {
  #tell;
  #chart;

  /**
   * @param {HTMLElement} parent
   * @param {(index: number | null) => void} tell which day the pointer is at
   */
  constructor(parent, tell) {
    this.#tell = tell;
    this.#chart = new Chart(parent, HEIGHT, (theme) => this.#options(theme));
  }

  /** @param {readonly PriceDay[]} days */
  show(days) {
    this.#chart.show([
      days.map(({ day }) => Date.parse(day) / 1000),
      days.map(({ offramp }) => offramp && toPixels(offramp.rate)),
      days.map(({ onramp }) => onramp && toPixels(onramp.rate)),
    ]);
  }

  /**
   * @param {import("./plot.js").Theme} theme
   * @returns {import("./plot.js").Options}
   */
  #options({ axis, colour }) {
    return {
      // Days are UTC days, wherever the reader is.
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      axes: [
        {
          ...axis,
          size: 34,
          space: 70,
          grid: { show: false },
          values: (_, times) => times.map(monthAndDay),
        },
        { ...axis, size: 62, space: 36 },
      ],
      series: [{}, line(colour("sell")), line(colour("buy"))],
      hooks: { setCursor: [(plot) => this.#tell(plot.cursor.idx ?? null)] },
    };
  }
}

/** @param {number} time in seconds */
function monthAndDay(time) {
  return new Date(time * 1000).toISOString().slice(5, 10);
}

/** @param {string} stroke */
function line(stroke) {
  // A day without a trade is a gap: points show days that stand alone.
  return { stroke, width: 1.5, points: { show: true, size: 5, fill: stroke } };
}
