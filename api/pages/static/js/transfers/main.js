// @ts-check
/**
 * The page of transfers: `/transfers` starts one, `/transfers/{id}` shows it. One document, so that
 * the token survives the way from one to the other in memory.
 */

import { byId, setText } from "../shared/dom.js";
import { followInside } from "../shared/inside.js";
import { NotReached, Refresher, Refused, ROOT } from "../shared/rest.js";
import { Api } from "./client/api.js";
import { Follower } from "./client/follow.js";
import { openByLink, signIn, takeToken } from "./client/session.js";
import { ENDED } from "./core/words.js";
import { ActionView } from "./view/action.js";
import { showList } from "./view/list.js";
import { SignInView } from "./view/signin.js";
import { StartView } from "./view/start.js";
import { TransferView } from "./view/transfer.js";
import { discoverWallets, FailedTransaction, sendCalls } from "./wallets/evm.js";
import { freighter } from "./wallets/stellar.js";

/** @typedef {import("./client/api.js").Transfer} Transfer */
/** @typedef {import("./client/session.js").Session} Session */

const LINKS = {
  connecting: "Connecting",
  live: "Live",
  asking: "No stream: asking every few seconds",
  ended: "Signed out",
};

/** What is awaited of the owner can change without a change of the transfer: a trustline, money. */
const ACTIONS_EVERY = 10_000;
/** Durations of the last 30 days hardly change. */
const DURATIONS_EVERY = 60_000;

class Page {
  /** @type {Session | null} */
  #session = null;
  /** @type {Follower | null} */
  #follower = null;
  /** @type {Map<string, Transfer>} */
  #transfers = new Map();
  /** @type {readonly import("./client/api.js").Lane[]} */
  #lanes = [];
  #problem = "";
  #isBusy = false;
  /** Transfers whose money was sent from here: there is no action until the service has read it. */
  #paid = new Set();
  /** Transactions that were signed here and accepted: the same one need not be signed twice. */
  #signed = new Set();

  #signIn = new SignInView(
    async (wallet) => this.#open(await signIn(wallet)),
    () => this.#signOut(),
  );
  #start = new StartView(
    (transfer) => this.#onStarted(transfer),
    () => this.#askLanes(),
  );
  #transfer = new TransferView();
  #action = new ActionView({
    onPay: (wallet, action) =>
      this.#act(async (session, { id, source_address }, say) => {
        try {
          const onPaid = () => this.#paid.add(id);
          const hash = await sendCalls(wallet, action, source_address, say, onPaid);
          return await session.api.submit(id, { kind: "evm_tx", hash });
        } catch (error) {
          if (error instanceof FailedTransaction) this.#paid.delete(id);
          throw error;
        }
      }),
    onSign: ({ xdr, network_passphrase }) =>
      this.#act(async (session, { id }, say) => {
        const wallet = session.wallet ?? freighter;
        say(`Confirm it in ${wallet.name}.`);
        const signed_xdr = await wallet.sign(xdr, network_passphrase, session.account);
        const shown = await session.api.submit(id, { kind: "stellar_tx", signed_xdr });
        this.#signed.add(xdr);
        return shown;
      }),
  });
  #actions = new Refresher(() => this.#askActions(), 1_000);

  /** Begin. */
  async begin() {
    // Relative links mean what they meant when the page was loaded, wherever the address goes.
    const named = document.querySelectorAll('a[href]:not([href^="#"]), link[rel="icon"]');
    for (const each of named) {
      const link = /** @type {HTMLAnchorElement | HTMLLinkElement} */ (each);
      link.href = String(link.href);
    }
    addEventListener("popstate", () => this.#arrive());
    addEventListener("hashchange", () => this.#takeLink());
    // The token survives these: opened in a tab of their own they ask to sign in.
    followInside("a[data-transfer]", ({ dataset }) => this.#go(dataset.transfer || null));
    byId("cancel").addEventListener("click", () =>
      this.#act((session, { id }) => session.api.cancel(id)),
    );
    setInterval(() => this.#actions.wake(), ACTIONS_EVERY);
    setInterval(() => this.#askDurations(), DURATIONS_EVERY);
    discoverWallets((wallets) => {
      this.#start.offer(wallets);
      this.#action.offer(wallets);
    });
    this.#show();
    await this.#takeLink();
  }

  /** A token in a link shows its owner's transfer; it never opens the form that starts another. */
  async #takeLink() {
    const token = takeToken();
    if (token === null || this.#id() === null) return;
    try {
      this.#open(await openByLink(token));
    } catch (error) {
      this.#end(`The link does not sign you in: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {Session} session */
  #open(session) {
    this.#end("");
    this.#session = session;
    this.#follower = new Follower(
      session.token,
      (transfer) => this.#take(transfer),
      (link) => this.#showLink(link),
      () => this.#ask(),
    );
    this.#follower.start();
    this.#showLink("connecting");
    this.#arrive();
  }

  /** @param {string} problem why the session is over */
  #end(problem) {
    this.#follower?.stop();
    this.#follower = null;
    this.#session = null;
    this.#transfers.clear();
    this.#problem = problem;
    this.#show();
  }

  async #signOut() {
    const session = this.#session;
    this.#end("");
    // What cannot be revoked (another issuer's token, no network) ends by its own time.
    await session?.api.signOut().catch((/** @type {unknown} */ error) => console.info(error));
  }

  /** @param {keyof typeof LINKS} link */
  #showLink(link) {
    byId("link").dataset.phase = link === "asking" ? "waiting" : link;
    setText(byId("phase"), LINKS[link]);
    if (link === "ended") this.#end("Your sign-in has ended. Sign in again.");
  }

  /** The transfer that the address names; null on the page to start one. */
  #id() {
    return /\/transfers\/([^/]+)$/.exec(location.pathname)?.[1] ?? null;
  }

  /** @param {Transfer} transfer */
  #take(transfer) {
    this.#keep(transfer);
    this.#show();
    if (transfer.id === this.#id()) this.#actions.wake();
  }

  /** @param {Transfer} transfer */
  #keep(transfer) {
    const known = this.#transfers.get(transfer.id);
    this.#transfers.set(transfer.id, transfer);
    // What was to be paid at another stage is not shown for one second more.
    if (transfer.id === this.#id() && transfer.stage !== known?.stage) this.#action.clear();
  }

  /** @param {Transfer} transfer */
  #onStarted(transfer) {
    this.#take(transfer);
    this.#go(transfer.id);
  }

  /** The address has changed, or who is signed in. */
  async #arrive() {
    this.#action.clear();
    this.#show();
    await this.#ask();
    this.#actions.wake();
    await this.#askDurations();
  }

  async #askDurations() {
    const transfer = this.#transfers.get(this.#id() ?? "");
    if (transfer === undefined || ENDED.has(transfer.stage)) return;
    this.#transfer.showDurations(await this.#askLanes());
  }

  /** Without an answer, what was known before. */
  async #askLanes() {
    try {
      this.#lanes = await new Api().lanes();
    } catch (error) {
      if (!(error instanceof Refused || error instanceof NotReached)) throw error;
      console.info(error);
    }
    return this.#lanes;
  }

  /** Ask for what the page shows. */
  async #ask() {
    const session = this.#session;
    if (session === null) return;
    try {
      const id = this.#id();
      const found = id === null ? await session.api.transfers() : [await session.api.transfer(id)];
      if (id === null) this.#start.open(session, await new Api().routes());
      this.#problem = "";
      for (const each of found) this.#keep(each);
    } catch (error) {
      this.#refused(error);
    }
    this.#show();
  }

  /** @param {unknown} error */
  #refused(error) {
    if (error instanceof Refused && error.status === 401)
      this.#end("Your sign-in has ended. Sign in again.");
    else if (error instanceof Refused || error instanceof NotReached) this.#problem = error.message;
    else throw error;
  }

  async #askActions() {
    const session = this.#session;
    const transfer = this.#transfers.get(this.#id() ?? "");
    if (session === null || transfer === undefined || this.#isBusy) return;
    try {
      const actions = await this.#actionsOf(session, transfer);
      // An answer about what the transfer was, or about another, is not shown: one more is asked.
      const isSame = this.#session === session && this.#id() === transfer.id;
      if (isSame && this.#transfers.get(transfer.id)?.stage === transfer.stage)
        this.#action.show(transfer, actions, session.byLink);
    } catch (error) {
      this.#refused(error);
      this.#show();
    }
  }

  /**
   * @param {Session} session
   * @param {Transfer} transfer
   */
  async #actionsOf(session, { id, stage }) {
    const none = { action: null, needs_trustline: null };
    if (ENDED.has(stage)) return { ...none, reason: "over" };
    if (this.#paid.has(id) && stage === "AWAITING_SIGNATURE") return { ...none, reason: "paid" };
    const actions = await session.api.actions(id);
    const { action } = actions;
    const isSigned = action !== null && "xdr" in action && this.#signed.has(action.xdr);
    return isSigned ? { ...none, reason: "signed" } : actions;
  }

  /**
   * Do what the owner asked for, one thing at a time.
   *
   * @param {(session: Session, transfer: Transfer, say: (text: string) => void) =>
   *   Promise<Transfer>} act
   */
  async #act(act) {
    const session = this.#session;
    const transfer = this.#transfers.get(this.#id() ?? "");
    if (session === null || transfer === undefined || this.#isBusy) return;
    this.#isBusy = true;
    const say = (/** @type {string} */ text) => this.#action.say(text, true);
    say("");
    try {
      this.#take(await act(session, transfer, say));
      this.#action.say("", false);
    } catch (error) {
      this.#action.say(/** @type {Error} */ (error).message, false);
    }
    this.#isBusy = false;
    this.#actions.wake();
  }

  #show() {
    const id = this.#id();
    const session = this.#session;
    const transfer = this.#transfers.get(id ?? "") ?? null;
    this.#signIn.show(session, session === null ? this.#problem : "");
    byId("starting").hidden = session === null || id !== null;
    byId("transfer").hidden = session === null || id === null;
    byId("link").hidden = session === null;
    if (session === null || id === null) document.title = "Transfers · Isthmus";
    if (id === null) {
      setText(byId("list-problem"), this.#problem);
      const known = [...this.#transfers.values()];
      known.sort((one, other) => other.started_at.localeCompare(one.started_at));
      showList(known.slice(0, 10), (each) => String(new URL(`transfers/${each}`, ROOT)));
    } else if (session !== null) this.#transfer.show(transfer, this.#problem);
  }

  /** @param {string | null} id null for the page to start one */
  #go(id) {
    const place = new URL(id === null ? "transfers" : `transfers/${id}`, ROOT);
    history.pushState(null, "", place);
    this.#arrive();
    scrollTo(0, 0);
    byId(id === null ? "start-title" : "transfer-title").focus({ preventScroll: true });
  }
}

new Page().begin();
