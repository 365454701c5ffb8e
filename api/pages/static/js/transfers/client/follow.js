// @ts-check
/**
 * An owner's transfers as they change: by the stream, and by asking while there is no stream.
 */

import { Backoff } from "../../shared/backoff.js";
import { ROOT } from "../../shared/rest.js";

/** @typedef {import("./api.js").Transfer} Transfer */
/** @typedef {"connecting" | "live" | "asking" | "ended"} Link `ended`: the token is refused */

const ASK_EVERY = 4_000;
const LONGEST_PAUSE = 15_000;
/** Markers come with every ledger: without any for so long the connection is dead. */
const SILENCE = 60_000;

export class Follower {
  #token;
  #onTransfer;
  #onLink;
  #ask;
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {number | null} The greatest number of an event: a resume goes on after it. */
  #after = null;
  #backoff = new Backoff(LONGEST_PAUSE);
  #stopped = false;
  #asking = 0;
  #retry = 0;
  #silence = 0;

  /**
   * @param {string} token
   * @param {(transfer: Transfer) => void} onTransfer
   * @param {(link: Link) => void} onLink
   * @param {() => Promise<void>} ask what is asked every few seconds without a stream
   */
  constructor(token, onTransfer, onLink, ask) {
    this.#token = token;
    this.#onTransfer = onTransfer;
    this.#onLink = onLink;
    this.#ask = ask;
  }

  /** Connect, and stay connected until `stop`. */
  start() {
    // Ledger markers without the order book.
    const url = new URL("api/v1/stream?channel=intent&markers=1", ROOT);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      socket.send(JSON.stringify({ auth: this.#token, after: this.#after }));
    });
    socket.addEventListener("message", ({ data }) => {
      if (socket === this.#socket) this.#take(JSON.parse(String(data)));
    });
    socket.addEventListener("close", ({ code, reason }) => {
      if (socket === this.#socket) this.#lost(code === 1008 && reason.startsWith("token "));
    });
    this.#expectSomething();
  }

  /** Let go of it. */
  stop() {
    this.#stopped = true;
    this.#pauseAll();
    this.#socket?.close();
    this.#socket = null;
  }

  /** @param {{ channel: string, number?: number, transfer?: Transfer, mode?: string }} message */
  #take(message) {
    this.#expectSomething();
    if (message.channel !== "transfer") return;
    this.#after = Math.max(this.#after ?? 0, message.number ?? 0);
    if (message.transfer !== undefined) this.#onTransfer(message.transfer);
    if (message.mode === undefined) return;
    this.#backoff.reset();
    clearTimeout(this.#asking);
    this.#asking = 0;
    this.#onLink("live");
  }

  #expectSomething() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(false), SILENCE);
  }

  /** @param {boolean} isRefused whether the token is, for good */
  #lost(isRefused) {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    if (this.#stopped) return;
    if (isRefused) {
      this.stop();
      this.#onLink("ended");
      return;
    }
    clearTimeout(this.#silence);
    this.#onLink("asking");
    if (this.#asking === 0) this.#askNow();
    this.#retry = setTimeout(() => this.start(), this.#backoff.next());
  }

  async #askNow() {
    this.#asking = setTimeout(() => this.#askNow(), ASK_EVERY);
    await this.#ask();
  }

  #pauseAll() {
    for (const timer of [this.#asking, this.#retry, this.#silence]) clearTimeout(timer);
  }
}
