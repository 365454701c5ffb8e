// @ts-check
/**
 * The owner's next action: an address to pay, calls for an EVM wallet, or a Stellar transaction.
 */

import { chainName } from "../../shared/chains.js";
import { byId, make, setText } from "../../shared/dom.js";
import { copyable } from "../../shared/parts.js";
import { coinOf, formatCoin } from "../core/amounts.js";
import { CALLS, IDLE } from "../core/words.js";
import { button, end, facts, folded } from "./parts.js";
import { qrCode } from "./qr.js";
import { trustlineText } from "./quote.js";

/** @typedef {import("../client/api.js").Action} Action */
/** @typedef {import("../client/api.js").Actions} Actions */
/** @typedef {import("../client/api.js").Transfer} Transfer */
/** @typedef {import("../wallets/evm.js").EvmWallet} EvmWallet */
/** @typedef {Extract<Action, { kind: "evm_calls" }>} EvmCalls */
/** @typedef {Extract<Action, { xdr: string }>} ToSign */
/** @typedef {Extract<Action, { kind: "send_to_address" }>} ToPay */

const NO_EVM_WALLET =
  "No EVM wallet was found in this browser. Open this page in a browser that has one, " +
  "or send what is below from the address that pays, in this order.";

const TWO_SIGNED =
  " A withdrawal of USDC takes two: one that allows Circle's contract to take the amount, if it may " +
  "not yet, then the one that sends it.";

/**
 * @typedef {object} Handlers
 * @property {(wallet: EvmWallet, action: EvmCalls) => void} onPay
 * @property {(action: ToSign) => void} onSign
 */

export class ActionView {
  #handlers;
  /** @type {readonly EvmWallet[]} */
  #wallets = [];
  /** @type {{ transfer: Transfer, actions: Actions, byLink: boolean } | null} */
  #shown = null;
  /** Transfers whose recipient the reader of a link has said to be right. */
  #confirmed = new Set();
  #drawn = "";

  /** @param {Handlers} handlers */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** @param {readonly EvmWallet[]} wallets */
  offer(wallets) {
    this.#wallets = wallets;
    this.#draw();
  }

  /**
   * @param {Transfer} transfer
   * @param {Actions} actions
   * @param {boolean} byLink whether the session may be another person's
   */
  show(transfer, actions, byLink) {
    this.#shown = { transfer, actions, byLink };
    this.#draw();
  }

  /** Show nothing until the next `show`. */
  clear() {
    this.#shown = null;
    this.#draw();
  }

  /**
   * @param {string} text what is being done, or went wrong
   * @param {boolean} isBusy
   */
  say(text, isBusy) {
    setText(byId("action-says"), text);
    byId("action-body").toggleAttribute("inert", isBusy);
  }

  #draw() {
    // Drawn only when it changes: a wallet's button keeps the focus.
    const ids = this.#wallets.map(({ id }) => id);
    const text = JSON.stringify([this.#shown?.actions, this.#shown?.transfer.id, ids]);
    if (text !== this.#drawn) this.#redraw();
    this.#drawn = text;
  }

  #redraw() {
    const body = byId("action-body");
    body.replaceChildren();
    if (this.#shown === null) return;
    const { transfer, actions, byLink } = this.#shown;
    const { action, reason, needs_trustline } = actions;
    byId("action").dataset.kind = action?.kind ?? reason ?? "";
    if (action === null) body.append(make("p", {}, IDLE[reason ?? "waiting"] ?? reason ?? ""));
    else if (isPayment(action) && byLink && !this.#confirmed.has(transfer.id))
      body.append(...this.#confirmation(transfer));
    else body.append(...this.#parts(transfer, action));
    if (needs_trustline !== null && action?.kind !== "stellar_trustline")
      body.append(make("p", { class: "note" }, trustlineText(needs_trustline)));
  }

  /**
   * A link can sign its reader in to another person's account, and ask them to pay for it.
   *
   * @param {Transfer} transfer
   */
  #confirmation({ id, dest_chain, dest_address }) {
    return [
      make("p", {}, "A link opened this transfer. What you pay goes to:"),
      facts([["Recipient", end(dest_chain, dest_address)]]),
      button("This is my account: show how to pay", () => {
        this.#confirmed.add(id);
        this.#redraw();
      }),
    ];
  }

  /**
   * @param {Transfer} transfer
   * @param {Action} action
   * @returns {(Node | string)[]}
   */
  #parts(transfer, action) {
    switch (action.kind) {
      case "send_to_address":
        return paymentParts(transfer, action);
      case "evm_calls":
        return this.#callParts(transfer, action);
      case "stellar_tx":
        return this.#signParts(
          "Sign the transaction. The service sends it and pays its fee." +
            (transfer.direction === "withdraw" && coinOf(transfer.route) === "USDC"
              ? TWO_SIGNED
              : ""),
          action,
        );
      case "stellar_trustline":
        return this.#signParts(
          "Sign your trustline. The service pays for it, and your deposit arrives.",
          action,
        );
    }
  }

  /**
   * @param {Transfer} transfer
   * @param {EvmCalls} action
   */
  #callParts({ source_address, source_chain, dest_chain, dest_address }, action) {
    /** @type {HTMLElement[]} */
    const buttons = this.#wallets.map((wallet) =>
      button(`Pay with ${wallet.name}`, () => this.#handlers.onPay(wallet, action)),
    );
    if (buttons.length === 0) buttons.push(make("p", { class: "note" }, NO_EVM_WALLET));
    const calls = action.calls.map(({ to, data, value }) =>
      facts([
        ["Call", CALLS[data.slice(0, 10)] ?? "not known to this page"],
        ["Contract", copyable(to, "the contract")],
        ["Data", copyable(data, "the data")],
        ["Value, wei", value],
      ]),
    );
    const count = calls.length === 1 ? "1 transaction" : `${calls.length} transactions`;
    return [
      facts([
        ["Pays", end(source_chain, source_address)],
        ["Receives", end(dest_chain, dest_address)],
      ]),
      make("div", { class: "buttons" }, ...buttons),
      folded(`What is sent: ${count}`, ...calls),
    ];
  }

  /**
   * @param {string} text
   * @param {ToSign} action
   */
  #signParts(text, action) {
    return [
      make("p", {}, text),
      make(
        "div",
        { class: "buttons" },
        button("Sign", () => this.#handlers.onSign(action)),
      ),
      folded("What is signed", copyable(action.xdr, "the transaction")),
    ];
  }
}

/** @param {Action} action */
function isPayment(action) {
  return action.kind === "evm_calls" || action.kind === "send_to_address";
}

/**
 * @param {Transfer} transfer
 * @param {ToPay} action
 */
function paymentParts({ route, source_address }, { chain, asset, address, amount }) {
  const coin = coinOf(route);
  const token = asset.split(":").at(-1) ?? "";
  return [
    make(
      "p",
      {},
      `Send ${formatCoin(amount, chain, coin)} on ${chainName(chain)} to this address, from any wallet ` +
        "or exchange. Payments add up until the transfer expires. What is too much is refunded, and " +
        "what is late; at expiry also what is too little. Other tokens and amounts below the route's " +
        "minimum are refunded by an operator.",
    ),
    make(
      "div",
      { class: "payment" },
      qrCode(address, "the deposit address"),
      facts([
        [
          "Amount",
          copyable(formatCoin(amount, chain, "").trim().replaceAll(",", ""), "the amount"),
        ],
        ["Address", copyable(address, "the deposit address")],
        [`Token contract of ${coin}`, copyable(token, "the token contract")],
        ["Refunds go to", make("code", { class: "address" }, source_address)],
      ]),
    ),
  ];
}
