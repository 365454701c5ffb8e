// @ts-check
/**
 * All that the page knows, and how it comes to know it. Nothing is drawn here.
 */

import { Book, compareOffers } from "./core/book.js";
import { Clock } from "./core/clock.js";
import { Orders } from "./core/orders.js";
import { api, ask, NotReached, Refresher, Refused } from "./feed/rest.js";
import { Feed } from "./feed/stream.js";

/** @typedef {import("./core/orders.js").Order} Order */
/** @typedef {import("./view/figures.js").Provider} Provider */

const MOST_ORDERS = 20;
/** An account or a contract. Whether its checksum is right the API says. */
const ADDRESS = /^[GC][A-Z2-7]{55}$/;
/** Milliseconds between two questions for the same figures, however fast ledgers come. */
const APART = 1_000;

export class Market {
  clock = new Clock();
  /** @type {import("./feed/stream.js").Link} */
  link = { phase: "connecting" };
  /** Offers in the API's order: another list whenever anything has changed. */
  offers = /** @type {readonly import("./core/book.js").Offer[]} */ ([]);
  /**
   * The ledger that all of this is as of. When it closed is not told of one that others followed
   * before it was told; the time of the last one told is early enough.
   *
   * @type {{ ledger: number, closedAt: string | null } | null}
   */
  asOf = null;
  /** @type {string | null} as the API has it: providers without an offer count too */
  locked = null;
  orders = new Orders(MOST_ORDERS);
  /** The provider whose page it is. */
  address = "";
  /** @type {Provider | null} */
  provider = null;
  /** Why nothing is known of the provider; empty when it is, or will be. */
  problem = "";

  #book = new Book();
  /** Whether something was asked in vain. */
  #owed = false;
  #draw;
  #feed = new Feed(
    api("stream"),
    (batch) => this.#take(batch),
    (link) => this.#notice(link),
  );
  #figures = new Refresher(() => this.#askFigures(), APART);
  #past = new Refresher(() => this.#askOrders(), APART);

  /** @param {() => void} draw asks for the page to be drawn again */
  constructor(draw) {
    this.#draw = draw;
  }

  /** Follow the market from now on. */
  follow() {
    this.#feed.start();
    this.#ask();
  }

  /**
   * Turn to a provider, or to the whole market.
   *
   * @param {string} address empty for the whole market
   */
  visit(address) {
    if (address === this.address) return;
    this.address = address;
    this.provider = null;
    this.problem = "";
    this.orders = new Orders(MOST_ORDERS);
    this.#ask();
  }

  #ask() {
    this.#owed = false;
    if (this.address !== "" && !ADDRESS.test(this.address)) {
      this.problem = "This is not the address of a Stellar account.";
      return;
    }
    void this.#figures.wake();
    void this.#past.wake();
  }

  /** @param {import("./feed/reader.js").Batch} batch */
  #take(batch) {
    if (batch.isSnapshot) this.#book.clear();
    if (batch.isSnapshot || batch.changes.length > 0) {
      this.#book.apply(batch.changes);
      this.offers = this.#book.offers.sort(compareOffers);
    }
    this.asOf = { ledger: batch.ledger, closedAt: batch.closedAt ?? this.asOf?.closedAt ?? null };
    this.orders.take(batch.orders.filter((order) => this.#concerns(order)));
    // A snapshot tells no orders: what became of those known is to be asked for.
    if (batch.isSnapshot || this.#owed) this.#ask();
    else if (batch.changes.length > 0 || batch.orders.length > 0) void this.#figures.wake();
    this.#draw();
  }

  /** @param {Order} order */
  #concerns(order) {
    return this.address === "" || order.provider === this.address;
  }

  /** @param {import("./feed/stream.js").Link} link */
  #notice(link) {
    this.link = link;
    this.#draw();
  }

  /** What the stream does not tell: totals over all providers, or one provider's record. */
  async #askFigures() {
    const address = this.address;
    if (address === "") {
      const summary = await this.#get(api("orderbook/summary"));
      if (isKnown(summary)) this.locked = summary.totalLockedUsdc;
    } else {
      const provider = await this.#get(api(`providers/${address}`));
      if (provider === undefined || address !== this.address) return;
      this.problem = provider instanceof Refused ? provider.message : "";
      this.provider = isKnown(provider) ? provider : null;
    }
    this.#draw();
  }

  async #askOrders() {
    const address = this.address;
    /** @type {Record<string, string>} */
    const of = address === "" ? {} : { provider: address };
    const orders = await this.#get(api("intents", { ...of, limit: String(MOST_ORDERS) }));
    if (isKnown(orders) && address === this.address) this.orders.take(orders);
    this.#draw();
  }

  /**
   * What the API says or refuses to say. Undefined when it could not be reached: the next ledger
   * has it asked again.
   *
   * @param {URL} url
   * @returns {Promise<any | Refused | undefined>}
   */
  async #get(url) {
    try {
      const { body, date } = await ask(url);
      this.clock.adjust(date);
      return body;
    } catch (error) {
      if (error instanceof Refused) return error;
      if (!(error instanceof NotReached)) throw error;
      this.#owed = true;
      return undefined;
    }
  }
}

/** @param {any} answer of `Market.#get` */
function isKnown(answer) {
  return answer !== undefined && !(answer instanceof Refused);
}
