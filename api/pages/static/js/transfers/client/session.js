// @ts-check
/**
 * Who is signed in. The token is kept in this document's memory and nowhere else: no storage, no
 * cookie, no address. A reload signs out (docs/decisions.md, The page of transfers).
 */

import { Api } from "./api.js";

/** @typedef {import("../wallets/stellar.js").StellarWallet} StellarWallet */

/**
 * `byLink`: the token came with a link that anyone may have made, not from a wallet of the reader.
 *
 * @typedef {{ api: Api, token: string, account: string, wallet: StellarWallet | null,
 *   byLink: boolean }} Session
 */

const TOKEN = /^#([\w-]+\.[\w-]+\.[\w-]+)$/;

/**
 * The token of the address `…#token`, taken out of the address bar and of the tab's history.
 *
 * @returns {string | null}
 */
export function takeToken() {
  if (location.hash === "") return null;
  const token = TOKEN.exec(location.hash)?.[1] ?? null;
  history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

/**
 * @param {string} token
 * @returns {Promise<Session>}
 */
export async function openByLink(token) {
  const api = new Api(token);
  const { account } = await api.session();
  return { api, token, account, wallet: null, byLink: true };
}

/**
 * SEP-10: the wallet signs a transaction that can never be on the ledger.
 *
 * The challenge is not verified here: this page comes from the server that made it, so a server
 * that lies would send a page that does not look. The wallet shows what it signs.
 *
 * @param {StellarWallet} wallet
 * @returns {Promise<Session>}
 */
export async function signIn(wallet) {
  const account = await wallet.connect();
  const anonymous = new Api();
  const { transaction, network_passphrase } = await anonymous.challenge(account);
  const token = await anonymous.token(await wallet.sign(transaction, network_passphrase, account));
  return { api: new Api(token), token, account, wallet, byLink: false };
}
