// @ts-check
/**
 * The form that a transfer starts with: route, chain, amount, addresses; then its quote.
 */

import { chainName } from "../../shared/chains.js";
import { formatSpan } from "../../shared/clock.js";
import { byId, make, setText } from "../../shared/dom.js";
import { coinOf, decimalsOf, formatAmount, isStellar, parseAmount } from "../core/amounts.js";
import { usualTime } from "../core/arrival.js";
import { connectEvm } from "../wallets/evm.js";
import { button } from "./parts.js";
import { quoteFacts, trustlineText } from "./quote.js";

/** @typedef {import("../client/api.js").Route} Route */
/** @typedef {import("../client/api.js").RouteEnd} RouteEnd */
/** @typedef {import("../client/api.js").Quote} Quote */
/** @typedef {import("../client/api.js").Lane} Lane */
/** @typedef {import("../client/api.js").Transfer} Transfer */
/** @typedef {import("../client/session.js").Session} Session */
/** @typedef {import("../wallets/evm.js").EvmWallet} EvmWallet */

/** What the address field asks for, by direction. */
const ASKED = {
  deposit: "EVM address that pays",
  withdraw: "EVM address that receives",
  send: "Stellar account that receives, G…",
};

export class StartView {
  #form = /** @type {HTMLFormElement} */ (byId("start-form"));
  #onStarted;
  #askLanes;
  /** @type {Session | null} */
  #session = null;
  /** @type {readonly Route[]} */
  #routes = [];
  /** The quote, and the key that makes one transfer of it however often it is tried. */
  /** @type {{ quote: Quote, key: string } | null} */
  #quoted = null;

  /**
   * @param {(transfer: Transfer) => void} onStarted
   * @param {() => Promise<readonly Lane[]>} askLanes none while they are not known
   */
  constructor(onStarted, askLanes) {
    this.#onStarted = onStarted;
    this.#askLanes = askLanes;
    this.#form.addEventListener("change", () => this.#showFields());
    this.#form.addEventListener("input", () => this.#forget());
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#try(() => this.#askQuote());
    });
    byId("start").addEventListener("click", () => this.#try(() => this.#start()));
    setInterval(() => this.#tick(), 1_000);
  }

  /**
   * @param {Session} session
   * @param {readonly Route[]} routes
   */
  open(session, routes) {
    if (session !== this.#session) this.#forget();
    this.#session = session;
    this.#routes = routes;
    this.#showFields();
  }

  /** @param {readonly EvmWallet[]} wallets */
  offer(wallets) {
    const buttons = wallets.map((wallet) =>
      button(`Use ${wallet.name}`, () => this.#try(() => this.#fill(wallet)), "quiet"),
    );
    byId("address-wallets").replaceChildren(...buttons);
  }

  /** @param {EvmWallet} wallet */
  async #fill(wallet) {
    this.#field("address").value = await connectEvm(wallet);
    this.#forget();
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement} */ (this.#form.elements.namedItem(name));
  }

  get #direction() {
    return /** @type {Route["direction"]} */ (this.#field("direction").value);
  }

  /** @returns {Route | undefined} */
  get #route() {
    const options = this.#routes.filter(({ direction }) => direction === this.#direction);
    return options.find(({ id }) => coinOf(id) === this.#field("coin").value) ?? options[0];
  }

  /** The EVM side of a deposit or withdrawal, Stellar of a payment. */
  get #ends() {
    const route = this.#route;
    const ends = this.#direction === "deposit" ? route?.source_chains : route?.dest_chains;
    return ends ?? [];
  }

  get #isByAddress() {
    return !byId("funding").hidden && this.#field("funding_mode").checked;
  }

  get #source() {
    const ends = this.#route?.source_chains ?? [];
    return ends.find(({ chain }) => chain === this.#field("chain").value) ?? ends[0];
  }

  /** Everything follows from the direction, then the coin, then the chain. */
  #showFields() {
    const coins = this.#routes.filter(({ direction }) => direction === this.#direction);
    setOptions(
      this.#field("coin"),
      coins.map(({ id }) => [coinOf(id), coinOf(id)]),
    );
    setOptions(
      this.#field("chain"),
      this.#ends.map(({ chain, available }) => [
        chain,
        chainName(chain) + (available ? "" : " (not available now)"),
      ]),
    );
    const source = this.#source;
    const isDeposit = this.#direction === "deposit";
    byId("funding").hidden = !isDeposit || !source?.funding_modes.includes("deposit_address");
    byId("refund-note").hidden = !this.#isByAddress;
    byId("address-wallets").hidden = !isDeposit && this.#direction !== "withdraw";
    setText(byId("chain-label"), isDeposit ? "From" : "To");
    setText(
      byId("address-label"),
      this.#isByAddress ? "EVM address that gets refunds" : ASKED[this.#direction],
    );
    setText(byId("amount-coin"), coinOf(this.#route?.id ?? ""));
    setText(byId("amount-limits"), source === undefined ? "" : `(${limits(source)})`);
  }

  #forget() {
    this.#quoted = null;
    byId("quote").hidden = true;
    this.#say("");
  }

  /** @param {string} problem */
  #say(problem) {
    setText(byId("start-problem"), problem);
  }

  async #askQuote() {
    const route = this.#route;
    const source = this.#source;
    const session = this.#session;
    if (route === undefined || source === undefined || session === null)
      return this.#say("The routes are not known yet: try again in a moment.");
    const units = parseAmount(this.#field("amount").value, decimalsOf(source.chain));
    if (units === null)
      return this.#say(`Amount: a number with up to ${decimalsOf(source.chain)} decimals.`);
    if (units < BigInt(source.min_amount) || units > BigInt(source.max_amount))
      return this.#say(`Amount: ${limits(source)} ${coinOf(route.id)}.`);
    const [quote, lanes] = await Promise.all([
      session.api.quote(this.#wanted(route, source, units, session.account)),
      this.#askLanes(),
    ]);
    this.#quoted = { quote, key: crypto.randomUUID() };
    this.#showQuote(route, quote, lanes);
  }

  /**
   * @param {Route} route
   * @param {RouteEnd} source
   * @param {bigint} units
   * @param {string} account
   * @returns {Record<string, string>}
   */
  #wanted(route, source, units, account) {
    const address = this.#field("address").value.trim();
    const wanted = { route: route.id, amount_in: String(units), source_chain: source.chain };
    if (route.direction === "deposit") {
      return {
        ...wanted,
        source_address: address,
        dest_address: account,
        funding_mode: this.#isByAddress ? "deposit_address" : "direct",
      };
    }
    return {
      ...wanted,
      source_address: account,
      dest_address: address,
      dest_chain: this.#field("chain").value,
    };
  }

  /**
   * @param {Route} route
   * @param {Quote} quote
   * @param {readonly Lane[]} lanes
   */
  #showQuote(route, quote, lanes) {
    const source = this.#source;
    if (source === undefined) return;
    const dest = isStellar(source.chain) ? this.#field("chain").value : this.#stellar(route);
    const way = { route: route.id, source_chain: source.chain, dest_chain: dest };
    const time = usualTime(way, lanes);
    byId("quote-facts").replaceChildren(
      quoteFacts(quote, coinOf(route.id), source.chain, dest, time),
    );
    const needed = quote.needs_trustline;
    setText(byId("quote-trustline"), needed === null ? "" : trustlineText(needed));
    byId("quote").hidden = false;
    this.#tick();
    byId("start").focus();
  }

  /** @param {Route} route */
  #stellar(route) {
    return route.dest_chains[0]?.chain ?? "";
  }

  #tick() {
    if (this.#quoted === null) return;
    const left = Math.ceil((Date.parse(this.#quoted.quote.expires_at) - Date.now()) / 1000);
    const isOver = left <= 0;
    const text = isOver
      ? "The quote has expired: get another one."
      : `Valid for ${formatSpan(left)}.`;
    setText(byId("quote-expiry"), text);
    byId("start").toggleAttribute("disabled", isOver);
  }

  async #start() {
    if (this.#quoted === null || this.#session === null) return;
    const { quote, key } = this.#quoted;
    this.#onStarted(await this.#session.api.start(quote.id, key));
    this.#forget();
    this.#form.reset();
    this.#showFields();
  }

  /** @param {() => Promise<void>} act */
  async #try(act) {
    const panel = byId("start-panel");
    if (panel.hasAttribute("aria-busy")) return;
    panel.setAttribute("aria-busy", "true");
    try {
      this.#say("");
      await act();
    } catch (error) {
      this.#say(/** @type {Error} */ (error).message);
    } finally {
      panel.removeAttribute("aria-busy");
    }
  }
}

/** @param {RouteEnd} source */
function limits({ chain, min_amount, max_amount }) {
  const decimals = decimalsOf(chain);
  return `${formatAmount(min_amount, decimals)} to ${formatAmount(max_amount, decimals)}`;
}

/**
 * Offer these choices and keep what is chosen, if it is among them.
 *
 * @param {HTMLElement} field
 * @param {readonly (readonly [string, string])[]} options value and text
 */
function setOptions(field, options) {
  const select = /** @type {HTMLSelectElement} */ (field);
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}
