// @ts-check
/**
 * The page: what is known, drawn once a frame at most.
 */

import { bestRates, totals } from "./core/depth.js";
import { amountOf, ANY, choices, select, wantedSize } from "./core/filters.js";
import { readPlace, writePlace } from "./core/place.js";
import { Market } from "./market.js";
import { BestView } from "./view/best.js";
import { DepthView } from "./view/depth.js";
import { byId } from "../shared/dom.js";
import { followInside } from "../shared/inside.js";
import { shorten } from "../shared/parts.js";
import { showActivity, showProvider, showTotals } from "./view/figures.js";
import { FiltersView } from "./view/filters.js";
import { LinkView } from "./view/link.js";
import { OffersView } from "./view/offers.js";
import { HistoryView } from "./view/history.js";
import { OrdersView } from "./view/orders.js";
import { TakeView } from "./view/take.js";

/** @typedef {import("./core/place.js").Place} Place */

class Page {
  #market = new Market(() => this.draw());
  #place = readPlace(new URLSearchParams(location.search));
  #frame = 0;
  /** What the market was when it was last drawn: it need not be reckoned twice. */
  #drawn = { offers: this.#market.offers, query: "", waiting: "" };
  #currency = "";

  #link = new LinkView();
  #filters = new FiltersView((filters) => this.#go({ provider: "", filters }, "replace"));
  #depth = new DepthView();
  #best = new BestView((currency) => this.#pick(currency));
  #history = new HistoryView(() => this.draw());
  #take = new TakeView();
  #offers = new OffersView(
    this.#market.clock,
    () => this.draw(),
    (offer) => this.#explain(offer),
  );
  #orders = new OrdersView(this.#market.clock, () => this.draw());

  /** Begin. */
  open() {
    addEventListener("popstate", () => this.#arrive());
    followInside("a[data-inside]", (link) => this.#followInside(link));
    // Ages grow while nothing happens.
    setInterval(() => this.draw(), 1_000);
    this.#market.visit(wantedAt(this.#place));
    this.#history.choose(this.#place.filters.rail);
    this.#market.follow();
    this.draw();
  }

  /** Draw in the next frame, however often it is asked for until then. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
    });
  }

  #show() {
    const { provider } = this.#place;
    const { offers, orders } = this.#market;
    const query = writePlace(this.#place);
    const isSamePlace = this.#drawn.query === query;
    const waiting = this.#market.asOf === null ? this.#saidOfNoBook() : "";
    const isSame = isSamePlace && this.#drawn.offers === offers && this.#drawn.waiting === waiting;
    // What is new in a list is pointed out, unless the whole list is.
    const marked = isSamePlace && this.#drawn.offers.length > 0;
    this.#drawn = { offers, query, waiting };
    this.#showLink();
    byId("overview").hidden = provider !== "";
    byId("provider").hidden = provider === "";
    if (provider === "") this.#showMarket(isSame);
    else this.#showProvider(provider);
    this.#offers.show(this.#listed(), marked, this.#saidOfNone());
    this.#orders.show(orders.value?.newest ?? [], marked, this.#saidOfNoOrders());
  }

  #showLink() {
    const { asOf, clock, link } = this.#market;
    const closedAt = asOf?.closedAt ?? null;
    const age = closedAt === null ? null : clock.secondsSince(closedAt);
    this.#link.show({ link, ledger: asOf?.ledger ?? null, age });
  }

  /** @param {boolean} isSame whether offers and filters are what was drawn last */
  #showMarket(isSame) {
    const { asOf, currency, history, locked, offers } = this.#market;
    document.title = "Market · Isthmus";
    showTotals(asOf === null ? null : totals(offers), locked.value, locked.problem);
    this.#filters.show(this.#place.filters, choices(offers));
    if (!isSame) this.#showRates();
    const isBookKnown = asOf !== null;
    this.#history.show({
      currency,
      history: history.value,
      isBookKnown,
      problem: history.problem,
    });
  }

  /** @param {string} address */
  #showProvider(address) {
    document.title = `${shorten(address)} · Isthmus`;
    const { activity, provider } = this.#market;
    showProvider(address, provider.value, provider.problem);
    showActivity(activity.value, activity.problem);
    // Why there is no such provider is said once.
    byId("activity").hidden = provider.value === null && provider.problem !== "";
  }

  /** The offers of this place, in the API's order. */
  #listed() {
    const { provider, filters } = this.#place;
    const { offers } = this.#market;
    if (provider === "") return select(offers, filters);
    return offers.filter(({ entry }) => entry.provider === provider);
  }

  #saidOfNone() {
    if (this.#market.asOf === null) return this.#saidOfNoBook();
    if (this.#place.provider !== "") return "Nothing on offer now.";
    return this.#market.offers.length === 0
      ? "Nothing is on offer."
      : "No offer fits these filters.";
  }

  /** A refused stream does not say why; the orders of the same book do. */
  #saidOfNoBook() {
    const { problem } = this.#market.orders;
    return problem === ""
      ? "Waiting for the order book…"
      : `Waiting for the order book: ${problem}`;
  }

  #saidOfNoOrders() {
    const { problem, value } = this.#market.orders;
    if (value === null)
      return problem === ""
        ? "Waiting for recent orders…"
        : `Recent orders cannot be shown: ${problem}`;
    const { direction, currency, rail } = this.#place.filters;
    return direction + currency + rail === ""
      ? "No orders yet."
      : "None of the newest 1,000 orders fits these filters.";
  }

  /** @param {import("./core/book.js").Offer} offer */
  #explain(offer) {
    const { filters } = this.#place;
    this.#take.open(offer, { rail: filters.rail, amount: amountOf(filters, offer) });
  }

  /** Best rates and depth, for the order size and rail that are asked for. */
  #showRates() {
    const { filters } = this.#place;
    // Fiat is of one currency.
    const currency = filters.fiat === "" ? "" : filters.currency;
    const fitting = select(this.#market.offers, { ...filters, direction: "", currency });
    const best = bestRates(fitting);
    this.#currency = filters.currency || this.#mostOffered(best);
    const isKnown = this.#market.asOf !== null;
    const otherwise = isKnown ? "No offers." : this.#saidOfNoBook();
    this.#best.show(best, this.#currency, wantedSize(filters), otherwise);
    this.#depth.show(
      fitting.filter(({ entry }) => entry.currency === this.#currency),
      this.#currency,
      isKnown ? "No depth to draw." : otherwise,
    );
    this.#market.priceIn(this.#currency);
  }

  /**
   * The currency to draw when none is picked: the one drawn so far, or that with the most offers.
   *
   * @param {readonly import("./core/depth.js").Best[]} best
   */
  #mostOffered(best) {
    if (best.some(({ currency }) => currency === this.#currency)) return this.#currency;
    return best.toSorted((a, b) => b.offers - a.offers)[0]?.currency ?? "";
  }

  /** @param {string} currency */
  #pick(currency) {
    const { filters } = this.#place;
    const picked = filters.currency === currency ? "" : currency;
    const fiat = picked === "" ? "" : filters.fiat;
    this.#go({ provider: "", filters: { ...filters, currency: picked, fiat } }, "replace");
  }

  /**
   * @param {Place} place
   * @param {"push" | "replace"} how typing into a filter leaves no trail of letters behind
   */
  #go(place, how) {
    const address = writePlace(place);
    if (how === "push") history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.#turnTo(place);
  }

  /** The reader went back or forth. */
  #arrive() {
    this.#turnTo(readPlace(new URLSearchParams(location.search)));
  }

  /** @param {Place} place */
  #turnTo(place) {
    if (place.provider !== this.#place.provider) this.#offers.fold();
    if (place.filters.rail !== this.#place.filters.rail) this.#history.choose(place.filters.rail);
    this.#place = place;
    this.#market.visit(wantedAt(place));
    this.draw();
  }

  /** @param {HTMLAnchorElement} link to the market or to a provider */
  #followInside(link) {
    const { provider } = readPlace(new URL(link.href).searchParams);
    this.#go({ provider, filters: { ...ANY } }, "push");
    this.#show();
    scrollTo(0, 0);
    byId(provider === "" ? "offers" : "provider-title").focus({ preventScroll: true });
  }
}

/**
 * The orders that belong to a place.
 *
 * @param {Place} place
 * @returns {import("./market.js").Wanted}
 */
function wantedAt({ provider, filters: { direction, currency, rail } }) {
  return { provider, direction, currency, rail };
}

new Page().open();
