// @ts-check
/**
 * The drawing of depth. From here on amounts are lengths: what is read off them is said elsewhere,
 * from the exact figures.
 */

import { toPixels } from "../../shared/decimal.js";
import { Chart, uPlot } from "./plot.js";

/** @typedef {import("../core/depth.js").Step} Step */
/** @typedef {{ side: "onramp" | "offramp", step: Step }} At */
/** @typedef {import("./plot.js").Columns} Columns */

/** Rates further than this from the best are not drawn: anyone may list one, and squash the rest. */
const FURTHEST = 3n;

const HEIGHT = 260;

/**
 * The steps that are near enough to the best rate to be drawn.
 *
 * @param {readonly Step[]} steps the best first
 */
export function drawnSteps(steps) {
  const best = steps[0]?.rate ?? 0n;
  return steps.filter(({ rate }) => rate <= best * FURTHEST && best <= rate * FURTHEST);
}

/**
 * Both sides over one axis of rates. A side is 0 just before its best rate and undrawn before that.
 *
 * @param {readonly Step[]} onramp
 * @param {readonly Step[]} offramp
 * @returns {{ data: Columns, at: (At | null)[] }} rates, sell side, buy side; and the
 *   step at each rate
 */
export function curves(onramp, offramp) {
  const rates = [...onramp, ...offramp].map(({ rate }) => toPixels(rate));
  const low = Math.min(...rates);
  const high = Math.max(...rates);
  const margin = (high - low) * 0.06 || high * 0.02;
  const buy = onramp.map((step) => ({ x: toPixels(step.rate), step }));
  const sell = offramp.map((step) => ({ x: toPixels(step.rate), step })).reverse();
  const xs = [...new Set([low - margin, ...gap(buy, sell), ...rates, high + margin])];
  xs.sort((a, b) => a - b);
  const bought = xs.map((x) => buy.findLast((point) => point.x <= x)?.step);
  const sold = xs.map((x) => sell.find((point) => point.x >= x)?.step);
  return {
    data: [
      xs,
      sold.map((step, index) => length(step, sold[index - 1])),
      bought.map((step, index) => length(step, bought[index + 1])),
    ],
    at: xs.map((_, index) => {
      const [buying, selling] = [bought[index], sold[index]];
      if (buying) return { side: "onramp", step: buying };
      return selling ? { side: "offramp", step: selling } : null;
    }),
  };
}

/**
 * Where both sides are 0: between the best rates, if they leave a gap.
 *
 * @param {{ x: number }[]} buy
 * @param {{ x: number }[]} sell
 */
function gap(buy, sell) {
  const [best, other] = [buy[0]?.x, sell.at(-1)?.x];
  return best !== undefined && other !== undefined && other < best ? [(best + other) / 2] : [];
}

/**
 * @param {Step | undefined} step
 * @param {Step | undefined} neighbour towards the side's better rates
 */
function length(step, neighbour) {
  if (step) return toPixels(step.available);
  return neighbour ? 0 : null;
}

export class DepthChart {
  #tell;
  #chart;
  /** @type {(At | null)[]} */
  #at = [];

  /**
   * @param {HTMLElement} parent
   * @param {(at: At | null) => void} tell what the pointer is at
   */
  constructor(parent, tell) {
    this.#tell = tell;
    this.#chart = new Chart(parent, HEIGHT, (theme) => this.#options(theme));
  }

  /**
   * @param {readonly Step[]} onramp
   * @param {readonly Step[]} offramp
   */
  show(onramp, offramp) {
    if (onramp.length + offramp.length === 0) return;
    const { data, at } = curves(drawnSteps(onramp), drawnSteps(offramp));
    this.#at = at;
    this.#chart.show(data);
  }

  /**
   * @param {import("./plot.js").Theme} theme
   * @returns {import("./plot.js").Options}
   */
  #options({ axis, colour }) {
    return {
      scales: {
        x: { time: false, range: (_, low, high) => [low, high] },
        y: { range: (_, __, high) => [0, high * 1.08 || 1] },
      },
      axes: [
        { ...axis, size: 34, space: 70, grid: { show: false } },
        { ...axis, size: 62, space: 44 },
      ],
      series: [
        {},
        side(colour("sell"), colour("sell-wash"), -1),
        side(colour("buy"), colour("buy-wash"), 1),
      ],
      hooks: { setCursor: [(plot) => this.#point(plot.cursor.idx)] },
    };
  }

  /** @param {number | null | undefined} index */
  #point(index) {
    this.#tell(index === null || index === undefined ? null : (this.#at[index] ?? null));
  }
}

/**
 * @param {string} stroke
 * @param {string} fill
 * @param {1 | -1} align which way a step holds: to the right of its rate, or to the left
 */
function side(stroke, fill, align) {
  return {
    stroke,
    fill,
    width: 1.5,
    paths: uPlot.paths.stepped?.({ align }),
    points: { show: false },
  };
}
