// @ts-check
/**
 * The dialog that says how to take an offer.
 */

import { formatUnits } from "../../shared/decimal.js";
import {
  fiatFor,
  javascriptExpiry,
  javascriptProgram,
  netOf,
  openArguments,
  pythonExpiry,
  pythonProgram,
  takenAmount,
} from "../core/take.js";
import { byId, make, setAttribute, setText, within } from "../../shared/dom.js";
import { copyText, explorerLink, shorten } from "../../shared/parts.js";
import { CHAIN, ESCROW } from "../site.js";
import { SIDES } from "./cells.js";

/** @typedef {import("../core/book.js").Offer} Offer */

export class TakeView {
  /** @type {HTMLDialogElement} */
  #dialog = byId("take");
  /** @type {HTMLSelectElement} */
  #rail = byId("take-rail");
  /** @type {HTMLInputElement} */
  #amount = byId("take-amount");
  /** The offer as it was when the dialog was opened: what is read does not change meanwhile. */
  #offer = /** @type {Offer | null} */ (null);

  constructor() {
    this.#rail.addEventListener("input", () => {
      this.#hidePayee();
      this.#show();
    });
    this.#amount.addEventListener("input", () => this.#show());
    for (const radio of this.#dialog.querySelectorAll("[name=language]"))
      radio.addEventListener("input", () => this.#show());
    byId("take-reveal").addEventListener("click", () => this.#revealPayee());
    byId("take-copy").addEventListener("click", () => void this.#copy());
    this.#dialog.addEventListener("close", () => this.#hidePayee());
  }

  /**
   * @param {Offer} offer
   * @param {{ rail: string, amount: bigint | null }} wanted by the filters
   */
  open(offer, { rail, amount }) {
    this.#offer = offer;
    const { acceptedRails, currency, direction, provider } = offer.entry;
    this.#rail.replaceChildren(...acceptedRails.map((value) => make("option", { value }, value)));
    if (acceptedRails.includes(rail)) this.#rail.value = rail;
    const fits = amount !== null && offer.min <= amount && amount <= offer.max;
    this.#amount.value = formatUnits(fits ? amount : offer.min).replaceAll(",", "");
    setText(
      byId("take-title"),
      `${SIDES[direction]} USDC at ${formatUnits(offer.rate, 2)} ${currency} ${direction === "onramp" ? "from" : "to"} ${shorten(provider)}`,
    );
    setText(byId("take-about"), ABOUT[direction]);
    setText(byId("take-contract"), ESCROW.contract);
    byId("take-explorer").replaceChildren(
      ...[explorerLink(CHAIN, ESCROW.contract, "Explorer ↗", "The contract")].filter(
        (link) => link !== null,
      ),
    );
    this.#hidePayee();
    this.#show();
    this.#dialog.showModal();
  }

  #show() {
    const offer = this.#offer;
    if (offer === null) return;
    const amount = takenAmount(offer, this.#amount.value);
    setAttribute(this.#amount, "aria-invalid", String(amount === null));
    setText(byId("take-copied"), "");
    setText(
      byId("take-problem"),
      amount === null
        ? `This offer takes orders of ${formatUnits(offer.min)} to ${formatUnits(offer.max)} USDC: ` +
            "a number such as 12.5."
        : "",
    );
    setText(byId("take-fiat"), amount === null ? "" : exchange(offer, amount));
    this.#showCall(offer, amount);
  }

  /**
   * @param {Offer} offer
   * @param {bigint | null} amount null: there is no call
   */
  #showCall(offer, amount) {
    const args = amount === null ? [] : this.#argumentsOf(offer, amount);
    within(byId("take-arguments"), "tbody").replaceChildren(
      ...args.map(({ name, type, value }) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, name),
          make("td", {}, type),
          make("td", {}, make("bdi", {}, value)),
        ),
      ),
    );
    /** @type {HTMLInputElement} */
    const chosen = within(this.#dialog, "[name=language]:checked");
    const isPython = chosen.value === "python";
    const write = isPython ? pythonProgram : javascriptProgram;
    setText(byId("take-program"), args.length === 0 ? "" : write(ESCROW, args));
    byId("take-call").hidden = args.length === 0;
    byId("take-expiry").hidden = offer.entry.direction === "onramp";
    setText(byId("take-expiry-program"), (isPython ? pythonExpiry : javascriptExpiry)(ESCROW));
  }

  /**
   * None for an offer whose names no contract would accept: no program is made of them.
   *
   * @param {Offer} offer
   * @param {bigint} amount
   */
  #argumentsOf(offer, amount) {
    try {
      return openArguments(offer, this.#rail.value, amount);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      setText(byId("take-problem"), `No program is shown: ${error.message}.`);
      return [];
    }
  }

  /** A payee is personal data: it is in the page only while a reader looks at it. */
  #hidePayee() {
    const entry = this.#offer?.entry;
    const isPublished =
      entry !== undefined && Object.hasOwn(entry.paymentHandles, this.#rail.value);
    byId("take-payee").hidden = entry?.direction !== "onramp";
    byId("take-reveal").hidden = !isPublished;
    setText(
      byId("take-handle"),
      isPublished ? "" : "The provider publishes no payee for this rail: ask the provider.",
    );
  }

  #revealPayee() {
    const handle = this.#offer?.entry.paymentHandles[this.#rail.value] ?? "";
    byId("take-reveal").hidden = true;
    // A stranger's text: isolated, so that it cannot turn the direction of what follows it.
    byId("take-handle").replaceChildren("Pay to ", make("bdi", { class: "handle" }, handle));
  }

  async #copy() {
    const isCopied = await copyText(byId("take-program").textContent ?? "");
    const problem = "The browser does not allow it: select the text instead.";
    setText(byId("take-copied"), isCopied ? "Copied." : problem);
  }
}

/**
 * What the taker pays and gets. The fee is taken from the USDC that the contract pays out: on a
 * sale to the provider.
 *
 * @param {Offer} offer
 * @param {bigint} amount
 */
function exchange(offer, amount) {
  const { currency, direction } = offer.entry;
  const fiat = `${formatUnits(fiatFor(offer, amount), 2)} ${currency}`;
  const fee = `${formatUnits(BigInt(offer.entry.feeRateBps) * 100_000n)} % fee`;
  if (direction === "offramp")
    return `You pay ${formatUnits(amount)} USDC and get ${fiat}; the provider pays the ${fee}`;
  return `You pay ${fiat} and get ${formatUnits(netOf(offer, amount))} USDC, after the ${fee}`;
}

const ABOUT = {
  onramp:
    "The contract locks the provider's USDC for you, at the provider's rate of that moment: read the order's fiat amount before you pay it. Pay before the order expires; once the payment is verified, the contract pays you the USDC less the fee.",
  offramp:
    "The contract locks your USDC, at the provider's rate of that moment, and only the provider may cancel. The provider pays you the fiat before the order expires; once the payment is verified, the contract pays the USDC to the provider.",
};
