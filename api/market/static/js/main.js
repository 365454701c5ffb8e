// @ts-check
/**
 * The page: what is known, drawn once a frame at most.
 */

import { bestRates, totals } from "./core/depth.js";
import { amountOf, ANY, choices, select } from "./core/filters.js";
import { readPlace, writePlace } from "./core/place.js";
import { Market } from "./market.js";
import { BestView } from "./view/best.js";
import { shorten } from "./view/cells.js";
import { DepthView } from "./view/depth.js";
import { byId } from "./view/dom.js";
import { showProvider, showTotals } from "./view/figures.js";
import { FiltersView } from "./view/filters.js";
import { LinkView } from "./view/link.js";
import { OffersView } from "./view/offers.js";
import { OrdersView } from "./view/orders.js";

/** @typedef {import("./core/place.js").Place} Place */

class Page {
  #market = new Market(() => this.draw());
  #place = readPlace(new URLSearchParams(location.search));
  #frame = 0;
  /** What the market was when it was last drawn: it need not be reckoned twice. */
  #drawn = { offers: this.#market.offers, query: "" };
  #currency = "";

  #link = new LinkView();
  #filters = new FiltersView((filters) => this.#go({ provider: "", filters }, "replace"));
  #depth = new DepthView();
  #best = new BestView((currency) => this.#pick(currency));
  #offers = new OffersView(this.#market.clock, () => this.draw());
  #orders = new OrdersView(this.#market.clock);

  /** Begin. */
  open() {
    addEventListener("popstate", () => this.#arrive());
    document.addEventListener("click", (event) => this.#followInside(event));
    // Ages grow while nothing happens.
    setInterval(() => this.draw(), 1_000);
    this.#market.visit(this.#place.provider);
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
    const isSame = isSamePlace && this.#drawn.offers === offers;
    // What is new in a list is pointed out, unless the whole list is.
    const marked = isSamePlace && this.#drawn.offers.length > 0;
    this.#drawn = { offers, query };
    this.#showLink();
    byId("overview").hidden = provider !== "";
    byId("provider").hidden = provider === "";
    if (provider === "") this.#showMarket(isSame);
    else this.#showProvider(provider);
    this.#offers.show(this.#listed(), marked, this.#saidOfNone());
    this.#orders.show(orders.newest, marked);
  }

  #showLink() {
    const { asOf, clock, link } = this.#market;
    const closedAt = asOf?.closedAt ?? null;
    const age = closedAt === null ? null : clock.secondsSince(closedAt);
    this.#link.show({ link, ledger: asOf?.ledger ?? null, age });
  }

  /** @param {boolean} isSame whether offers and filters are what was drawn last */
  #showMarket(isSame) {
    const { offers, locked } = this.#market;
    document.title = "Market · Isthmus";
    showTotals(totals(offers), locked);
    this.#filters.show(this.#place.filters, choices(offers));
    if (!isSame) this.#showRates();
  }

  /** @param {string} address */
  #showProvider(address) {
    document.title = `${shorten(address)} · Isthmus`;
    showProvider(address, this.#market.provider, this.#market.problem);
  }

  /** The offers of this place, in the API's order. */
  #listed() {
    const { provider, filters } = this.#place;
    const { offers } = this.#market;
    if (provider === "") return select(offers, filters);
    return offers.filter(({ entry }) => entry.provider === provider);
  }

  #saidOfNone() {
    if (this.#market.asOf === null) return "Waiting for the order book…";
    if (this.#place.provider !== "") return "Nothing on offer now.";
    return this.#market.offers.length === 0
      ? "Nothing is on offer."
      : "No offer fits these filters.";
  }

  /** Best rates and depth, for the order size and rail that are asked for. */
  #showRates() {
    const { filters } = this.#place;
    const fitting = select(this.#market.offers, { ...filters, direction: "", currency: "" });
    const best = bestRates(fitting);
    this.#currency = filters.currency || this.#mostOffered(best);
    this.#best.show(best, this.#currency, amountOf(filters));
    this.#depth.show(
      fitting.filter(({ entry }) => entry.currency === this.#currency),
      this.#currency,
    );
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
    this.#go({ provider: "", filters: { ...filters, currency: picked } }, "replace");
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
    this.#place = place;
    this.#market.visit(place.provider);
    this.draw();
  }

  /**
   * Links within the market turn the page; opened in a tab of their own they are links like others.
   *
   * @param {MouseEvent} event
   */
  #followInside(event) {
    const link = event.target instanceof Element ? event.target.closest("a[data-inside]") : null;
    if (!(link instanceof HTMLAnchorElement) || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const { provider } = readPlace(new URL(link.href).searchParams);
    this.#go({ provider, filters: { ...ANY } }, "push");
    this.#show();
    scrollTo(0, 0);
    byId(provider === "" ? "offers" : "provider-title").focus({ preventScroll: true });
  }
}

new Page().open();
