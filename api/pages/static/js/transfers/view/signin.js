// @ts-check
/**
 * Signing in, and who is signed in.
 */

import { IS_DEMO } from "../../shared/chains.js";
import { byId, setText, within } from "../../shared/dom.js";
import { openSeed } from "../wallets/seed.js";
import { freighter } from "../wallets/stellar.js";

/** @typedef {import("../client/session.js").Session} Session */
/** @typedef {import("../wallets/stellar.js").StellarWallet} StellarWallet */

export class SignInView {
  #onWallet;

  /**
   * @param {(wallet: StellarWallet) => Promise<void>} onWallet the reader chose one
   * @param {() => void} onSignOut
   */
  constructor(onWallet, onSignOut) {
    this.#onWallet = onWallet;
    byId("sign-out").addEventListener("click", onSignOut);
    byId("use-freighter").addEventListener("click", () => this.#try(async () => freighter));
    byId("seed-form").hidden = !IS_DEMO;
    byId("seed-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (within(byId("seed-form"), "input"));
      this.#try(async () => {
        const wallet = await openSeed(field.value);
        field.value = "";
        return wallet;
      });
    });
  }

  /**
   * @param {Session | null} session
   * @param {string} problem why there is none
   */
  show(session, problem) {
    byId("sign-in").hidden = session !== null;
    byId("who").hidden = session === null;
    byId("by-link").hidden = session?.byLink !== true;
    setText(byId("account"), session?.account ?? "");
    setText(byId("sign-in-problem"), problem);
  }

  /** @param {() => Promise<StellarWallet>} open */
  async #try(open) {
    const panel = byId("sign-in");
    panel.toggleAttribute("inert", true);
    try {
      setText(byId("sign-in-problem"), "");
      await this.#onWallet(await open());
    } catch (error) {
      setText(byId("sign-in-problem"), /** @type {Error} */ (error).message);
    } finally {
      panel.toggleAttribute("inert", false);
    }
  }
}
