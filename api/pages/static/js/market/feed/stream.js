// @ts-check
/**
 * The stream of `/api/v1/stream`, for as long as the page is open.
 *
 * A ledger is handed on whole or not at all. What was missed while there was no connection is asked
 * for on the next one (`?after=`); a connection that cannot be trusted is given up, and with it all
 * that is known.
 */

import { Backoff } from "../../shared/backoff.js";
import { BrokenStream, Reader } from "./reader.js";

/**
 * Where the connection is; `retryAt` is on the clock of `performance.now()`.
 *
 * @typedef {{ phase: "connecting" | "open" } | { phase: "waiting", retryAt: number }} Link
 */

const LONGEST_PAUSE = 15_000;

/** Without a ledger for so long a connection may be dead and nobody has been told. */
const SILENCE = 40_000;

export class Feed {
  #url;
  #onBatch;
  #onLink;
  /** @type {WebSocket | undefined} */
  #socket;
  #reader = new Reader();
  /** The last ledger that was handed on; 0 for none. */
  #ledger = 0;
  #backoff = new Backoff(LONGEST_PAUSE);
  #retry = 0;
  #silence = 0;

  /**
   * @param {URL} url
   * @param {(batch: import("./reader.js").Batch) => void} onBatch
   * @param {(link: Link) => void} onLink
   */
  constructor(url, onBatch, onLink) {
    this.#url = url;
    this.#onBatch = onBatch;
    this.#onLink = onLink;
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => this.#hurry());
  }

  /** Connect, and stay connected. */
  start() {
    this.#retry = 0;
    const url = new URL(this.#url);
    url.protocol = url.protocol.replace("http", "ws");
    url.searchParams.set("markers", "1");
    if (this.#ledger > 0) url.searchParams.set("after", String(this.#ledger));
    this.#reader = new Reader();
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.addEventListener("message", (event) => {
      // One that was given up may still have something to say.
      if (socket === this.#socket) this.#take(String(event.data));
    });
    socket.addEventListener("close", () => this.#pause(socket));
    this.#onLink({ phase: "connecting" });
    this.#expectSomething();
  }

  /** @param {string} text */
  #take(text) {
    try {
      const batch = this.#reader.take(text);
      if (batch === null) return;
      this.#onBatch(batch);
      this.#ledger = batch.ledger;
    } catch (error) {
      if (!(error instanceof BrokenStream || error instanceof RangeError)) throw error;
      this.#ledger = 0;
      this.#giveUp();
      return;
    }
    this.#backoff.reset();
    this.#onLink({ phase: "open" });
    this.#expectSomething();
  }

  #expectSomething() {
    clearTimeout(this.#silence);
    // When ledgers stop, they stop for everybody: not all are to come back at once.
    this.#silence = setTimeout(() => this.#giveUp(), SILENCE * (1 + Math.random()));
  }

  /** Let go of the connection without waiting for the other side, which may be gone. */
  #giveUp() {
    const socket = this.#socket;
    if (socket === undefined) return;
    socket.close();
    this.#pause(socket);
  }

  /**
   * Try again after a while.
   *
   * @param {WebSocket} socket the connection that has ended
   */
  #pause(socket) {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    clearTimeout(this.#silence);
    const pause = this.#backoff.next();
    this.#retry = setTimeout(() => this.start(), pause);
    this.#onLink({ phase: "waiting", retryAt: performance.now() + pause });
  }

  /** Do not wait any longer when the network is back or somebody looks. */
  #hurry() {
    if (this.#retry === 0 || document.hidden) return;
    clearTimeout(this.#retry);
    this.start();
  }
}
