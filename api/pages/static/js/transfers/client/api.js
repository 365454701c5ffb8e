// @ts-check
/**
 * The calls of `/v1` and `/auth`. The token is sent in a header, never in an address.
 */

import { ask, ROOT } from "../../shared/rest.js";

/**
 * Members that this page reads; `/docs` has all of them.
 *
 * @typedef {{ chain: string, asset: string, min_amount: string, max_amount: string,
 *   amount_step: string, funding_modes: string[], expected_seconds: number,
 *   available: boolean }} RouteEnd
 * @typedef {{ id: string, direction: "deposit" | "withdraw" | "send", enabled: boolean,
 *   source_chains: RouteEnd[], dest_chains: RouteEnd[] }} Route
 * @typedef {{ route: string, source_chain: string, dest_chain: string,
 *   expected_seconds: number, median_seconds: number | null,
 *   p90_seconds: number | null }} Lane
 * @typedef {{ asset: string, creates_account: boolean, reserve: string, sponsored: boolean,
 *   reason: string | null }} Trustline
 * @typedef {{ name: string, amount: string }} Fee
 * @typedef {Fee & { chain: string }} NativeFee
 * @typedef {{ id: string, expires_at: string, sell_amount: string, buy_amount: string,
 *   price: string, fee: { total: string, details: Fee[], native_details: NativeFee[],
 *   operator_details: NativeFee[] }, needs_trustline: Trustline | null }} Quote
 * @typedef {{ chain: string, contract: string, message: string, attestation: string }} SelfFinish
 * @typedef {{ token: string, received: string, swept: string, returned: string,
 *   owed: string }} RefundLine
 * @typedef {{ id: string, route: string, direction: string, funding_mode: string | null,
 *   stage: string, stage_reason: string | null, stage_detail: string | null, turn: string,
 *   amount_in: string, amount_out: string, amount_fee: string, amount_delivered: string | null,
 *   source_chain: string, source_asset: string, source_address: string, dest_chain: string,
 *   dest_asset: string, dest_address: string, started_at: string, updated_at: string,
 *   expires_at: string, eta: string | null,
 *   timeline: { stage: string, at: string | null, clock: string | null, chain: string | null,
 *   tx: string | null }[],
 *   refund: { amount: string, transactions: string[], pending_below_minimum: string,
 *   tokens: RefundLine[] } | null,
 *   self_finish: SelfFinish | null, extras: string[],
 *   extras_self_finish: (SelfFinish & { movement: string })[] }} Transfer
 * @typedef {{ to: string, data: string, value: string }} EvmCall
 * @typedef {{ kind: "evm_calls", chainId: number, calls: EvmCall[] }
 *   | { kind: "send_to_address", chain: string, asset: string, address: string, amount: string }
 *   | { kind: "stellar_tx", xdr: string, network_passphrase: string }
 *   | { kind: "stellar_trustline", asset: string, xdr: string,
 *       network_passphrase: string }} Action
 * @typedef {{ action: Action | null, reason: string | null,
 *   needs_trustline: Trustline | null }} Actions
 */

export class Api {
  #token;

  /** @param {string | null} token of the owner; null for what is public */
  constructor(token = null) {
    this.#token = token;
  }

  /**
   * @param {string} path below the API's root, with its query
   * @param {{ method?: string, body?: unknown, key?: string }} [request] `key` is the
   *   `Idempotency-Key`
   * @returns {Promise<any>} the body
   * @throws {import("../../shared/rest.js").Refused | import("../../shared/rest.js").NotReached}
   *   asking again later can help after `NotReached`
   */
  async call(path, { method = "GET", body, key } = {}) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.#token !== null) headers.authorization = `Bearer ${this.#token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key !== undefined) headers["idempotency-key"] = key;
    const sent = body === undefined ? null : JSON.stringify(body);
    return (await ask(new URL(path, ROOT), { method, headers, body: sent })).body;
  }

  /** @returns {Promise<Route[]>} */
  async routes() {
    return (await this.call("v1/routes")).routes.filter(
      (/** @type {Route} */ each) => each.enabled,
    );
  }

  /** @returns {Promise<Lane[]>} the served routes with how long their last transfers took */
  async lanes() {
    return (await this.call("v1/status")).routes;
  }

  /**
   * @param {string} account
   * @returns {Promise<{ transaction: string, network_passphrase: string }>} SEP-10's challenge
   */
  challenge(account) {
    return this.call(`auth?account=${encodeURIComponent(account)}`);
  }

  /**
   * @param {string} transaction the challenge, signed
   * @returns {Promise<string>} a token
   */
  async token(transaction) {
    return (await this.call("auth", { method: "POST", body: { transaction } })).token;
  }

  /** @returns {Promise<{ account: string, expires_at: string }>} */
  session() {
    return this.call("v1/session");
  }

  /** Revoke the token. */
  signOut() {
    return this.call("v1/session", { method: "DELETE" });
  }

  /**
   * @param {Record<string, string>} wanted
   * @returns {Promise<Quote>}
   */
  quote(wanted) {
    return this.call("v1/quotes", { method: "POST", body: wanted });
  }

  /**
   * @param {string} quote id
   * @param {string} key the same for each attempt at one transfer
   * @returns {Promise<Transfer>}
   */
  start(quote, key) {
    return this.call("v1/transfers", { method: "POST", body: { quote_id: quote }, key });
  }

  /** @returns {Promise<Transfer[]>} the newest ten */
  async transfers() {
    return (await this.call("v1/transfers?limit=10")).transfers;
  }

  /**
   * @param {string} id
   * @returns {Promise<Transfer>}
   */
  transfer(id) {
    return this.call(`v1/transfers/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<Actions>}
   */
  actions(id) {
    return this.call(`v1/transfers/${encodeURIComponent(id)}/actions`);
  }

  /**
   * @param {string} id
   * @param {{ kind: "evm_tx", hash: string } | { kind: "stellar_tx", signed_xdr: string }} body
   * @returns {Promise<Transfer>}
   */
  submit(id, body) {
    return this.call(`v1/transfers/${encodeURIComponent(id)}/submissions`, {
      method: "POST",
      body,
    });
  }

  /**
   * @param {string} id
   * @returns {Promise<Transfer>}
   */
  cancel(id) {
    return this.call(`v1/transfers/${encodeURIComponent(id)}/cancel`, { method: "POST" });
  }
}
