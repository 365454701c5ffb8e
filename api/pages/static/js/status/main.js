// @ts-check
/**
 * The status page: what was answered last, drawn again every second because ages grow.
 */

import { Clock, formatSpan } from "../shared/clock.js";
import { byId, setText } from "../shared/dom.js";
import { Poll } from "./poll.js";
import { Tables } from "./tables.js";
import { VerdictView } from "./verdict.js";

/** @typedef {import("./poll.js").Status} Status */

class Page {
  #clock = new Clock();
  #verdict = new VerdictView();
  #tables = new Tables();
  /** @type {Status | null} */
  #status = null;
  /** @type {import("./poll.js").Failure | null} */
  #failure = null;
  #poll = new Poll(
    (status, date) => {
      this.#clock.adjust(date);
      this.#status = status;
      this.#failure = null;
      this.#show();
    },
    (failure) => {
      this.#failure = failure;
      this.#show();
    },
  );

  /** Begin. */
  open() {
    setInterval(() => this.#show(), 1_000);
    this.#poll.start();
  }

  #show() {
    const status = this.#status;
    const age = status === null ? null : this.#clock.secondsSince(status.as_of);
    this.#verdict.show({ status, age, failure: this.#failure });
    if (status === null || age === null) return;
    this.#tables.show(status, age);
    this.#showMoney(status);
  }

  /** @param {Status} status */
  #showMoney({ at, adds_up, findings, under_way }) {
    const wrong = total(findings);
    const sums = { true: "add up", false: `${wrong} ${wrong === 1 ? "finding" : "findings"}` };
    setText(byId("adds-up"), adds_up === null ? "not compared yet" : sums[`${adds_up}`]);
    const ago = at === null ? null : formatSpan(this.#clock.secondsSince(at));
    setText(byId("compared"), ago === null ? "not yet" : `${ago} ago`);
    setText(byId("under-way"), at === null ? "–" : String(total(under_way)));
  }
}

/** @param {Record<string, number>} counts */
const total = (counts) => Object.values(counts).reduce((sum, each) => sum + each, 0);

new Page().open();
