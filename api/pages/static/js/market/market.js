// @ts-check
/**
 * All that the page knows, and how it comes to know it. Nothing is drawn here.
 */

import { Book, compareOffers } from "./core/book.js";
import { Clock } from "../shared/clock.js";
import { Orders } from "./core/orders.js";
import { api, ask, NotReached, Refresher, Refused } from "../shared/rest.js";
import { Feed } from "./feed/stream.js";

/** @typedef {import("./core/orders.js").Order} Order */
/** @typedef {import("./view/figures.js").Provider} Provider */

const MAX_ORDERS = 20;
/** An account or a contract. Whether its checksum is right the API says. */
const ADDRESS = /^[GC][A-Z2-7]{55}$/;
/** Milliseconds between two questions for the same figures, however fast ledgers come. */
const APART = 1_000;
/** Milliseconds after which a price history is asked for again: a day may have closed. */
const HISTORY_AGE = 600_000;

/** A part of the market of which nothing is known yet. */
const UNKNOWN = /** @type {const} */ ({ value: null, problem: "" });

/**
 * Something that was asked for. Null is not known: waited for, or refused with the API's reason.
 *
 * @template T
 * @typedef {{ value: T | null, problem: string }} Answer
 */

/**
 * Which orders are wanted; empty text is any.
 *
 * @typedef {object} Wanted
 * @property {string} provider
 * @property {string} direction
 * @property {string} currency
 * @property {string} rail
 */

export class Market {
  clock = new Clock();
  /** @type {import("./feed/stream.js").Link} */
  link = { phase: "connecting" };
  /** Offers in the API's order: another list whenever anything has changed. */
  offers = /** @type {readonly import("./core/book.js").Offer[]} */ ([]);
  /**
   * The ledger that all of this is as of. A ledger that was sent late has no closing time;
   * that of the last one before is early enough.
   *
   * @type {{ ledger: number, closedAt: string | null } | null}
   */
  asOf = null;
  /** @type {Answer<string>} as the API has it: providers without an offer count too */
  locked = UNKNOWN;
  /** @type {Answer<Orders>} */
  orders = UNKNOWN;
  /** @type {Answer<Provider>} of the provider whose page it is */
  provider = UNKNOWN;
  /** @type {Answer<import("./view/figures.js").Activity>} */
  activity = UNKNOWN;
  /** @type {Answer<import("./core/history.js").History>} of `currency` */
  history = UNKNOWN;
  /** The currency of the price history; empty for none. */
  currency = "";

  #book = new Book();
  /** @type {Wanted} */
  #wanted = { provider: "", direction: "", currency: "", rail: "" };
  /** Orders that the stream sent while the list was requested. */
  #taken = new Orders(MAX_ORDERS);
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
  #prices = new Refresher(() => this.#askHistory(), APART);

  /** @param {() => void} draw asks for the page to be drawn again */
  constructor(draw) {
    this.#draw = draw;
  }

  /** Follow the market from now on. */
  follow() {
    this.#feed.start();
    this.#ask();
    setInterval(() => void this.#prices.wake(), HISTORY_AGE);
  }

  /**
   * Turn to a provider, or to a part of the market.
   *
   * @param {Wanted} wanted
   */
  visit(wanted) {
    const before = this.#wanted;
    const names = /** @type {const} */ (["provider", "direction", "currency", "rail"]);
    if (names.every((name) => wanted[name] === before[name])) return;
    this.#wanted = wanted;
    this.orders = UNKNOWN;
    this.#taken = new Orders(MAX_ORDERS);
    if (wanted.provider !== before.provider) {
      this.provider = UNKNOWN;
      this.activity = UNKNOWN;
    }
    this.#ask();
  }

  /**
   * Turn to the prices of a currency.
   *
   * @param {string} currency empty for none
   */
  priceIn(currency) {
    if (currency === this.currency) return;
    this.currency = currency;
    this.history = UNKNOWN;
    void this.#prices.wake();
  }

  #ask() {
    this.#owed = false;
    const { provider } = this.#wanted;
    if (provider !== "" && !ADDRESS.test(provider)) {
      this.provider = { value: null, problem: "This is not the address of a Stellar account." };
      this.orders = { value: new Orders(MAX_ORDERS), problem: "" };
      return;
    }
    void this.#figures.wake();
    void this.#past.wake();
    if (this.history.value === null) void this.#prices.wake();
  }

  /** @param {import("./feed/reader.js").Batch} batch */
  #take(batch) {
    if (batch.isSnapshot) this.#book.clear();
    if (batch.isSnapshot || batch.changes.length > 0) {
      this.#book.apply(batch.changes);
      this.offers = this.#book.offers.sort(compareOffers);
    }
    this.asOf = { ledger: batch.ledger, closedAt: batch.closedAt ?? this.asOf?.closedAt ?? null };
    this.#taken.take(batch.orders.filter((order) => concerns(order, this.#wanted)));
    // A snapshot tells no orders: what became of those known is to be asked for.
    if (batch.isSnapshot || this.#owed) this.#ask();
    else if (batch.changes.length > 0 || batch.orders.length > 0) void this.#figures.wake();
    this.#draw();
  }

  /** @param {import("./feed/stream.js").Link} link */
  #notice(link) {
    this.link = link;
    this.#draw();
  }

  /** What the stream does not tell: totals over all providers, or one provider's record. */
  async #askFigures() {
    const { provider } = this.#wanted;
    if (provider === "") {
      const summary = await this.#get(api("orderbook/summary"));
      this.locked = keep(this.locked, summary, ({ totalLockedUsdc }) => totalLockedUsdc);
    } else {
      const [record, activity] = await Promise.all([
        this.#get(api(`providers/${provider}`)),
        this.#get(api(`providers/${provider}/activity`)),
      ]);
      if (provider !== this.#wanted.provider) return;
      this.provider = keep(this.provider, record, (body) => body);
      this.activity = keep(this.activity, activity, (body) => body);
    }
    this.#draw();
  }

  async #askOrders() {
    const wanted = this.#wanted;
    const given = Object.entries(wanted).filter(([, text]) => text !== "");
    const query = { ...Object.fromEntries(given), limit: String(MAX_ORDERS) };
    const answer = await this.#get(api("intents", query));
    if (wanted !== this.#wanted) return;
    this.orders = keep(this.orders, answer, (orders) => {
      this.#taken.take(orders);
      return this.#taken;
    });
    this.#draw();
  }

  async #askHistory() {
    const { currency } = this;
    if (currency === "") return;
    const answer = await this.#get(api("orderbook/history", { currency }));
    if (currency !== this.currency) return;
    this.history = keep(this.history, answer, (history) => history);
    this.#draw();
  }

  /**
   * What the API says, or why it does not. What could not be reached is asked again at the next
   * ledger.
   *
   * @param {URL} url
   * @returns {Promise<any | Refused | NotReached>}
   */
  async #get(url) {
    try {
      const { body, date } = await ask(url);
      this.clock.adjust(date);
      return body;
    } catch (error) {
      if (error instanceof NotReached) this.#owed = true;
      else if (!(error instanceof Refused)) throw error;
      return error;
    }
  }
}

/**
 * Whether an order is among those wanted.
 *
 * @param {Order} order
 * @param {Wanted} wanted
 */
function concerns(order, wanted) {
  return (
    (wanted.provider === "" || order.provider === wanted.provider) &&
    (wanted.direction === "" || order.direction === wanted.direction) &&
    (wanted.currency === "" || order.currency === wanted.currency) &&
    (wanted.rail === "" || order.rail === wanted.rail)
  );
}

/**
 * What is known after an answer: what was known stays while the API cannot be reached.
 *
 * @template T
 * @param {Answer<T>} known
 * @param {any | Refused | NotReached} answer of `Market.#get`
 * @param {(body: any) => T} read
 * @returns {Answer<T>}
 */
function keep(known, answer, read) {
  if (answer instanceof Refused) return { value: null, problem: answer.message };
  if (answer instanceof NotReached) return { value: known.value, problem: answer.message };
  return { value: read(answer), problem: "" };
}
