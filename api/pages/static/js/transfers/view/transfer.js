// @ts-check
/**
 * A transfer: where it is, who has to act, when it arrives, and its history.
 */

import { chainName } from "../../shared/chains.js";
import { formatSpan } from "../../shared/clock.js";
import { byId, make, setText } from "../../shared/dom.js";
import { copyable, reference, timeElement } from "../../shared/parts.js";
import { coinOf, decimalsOf, formatAmount, formatCoin } from "../core/amounts.js";
import { arrivalText, latestArrival } from "../core/arrival.js";
import { CANCELLABLE, ENDED, REASONS, STAGES, TURNS } from "../core/words.js";
import { end, facts, folded } from "./parts.js";
import { refundRows, selfFinish } from "./rest.js";

/** @typedef {import("../client/api.js").Transfer} Transfer */
/** @typedef {import("../client/api.js").Lane} Lane */

const TITLES = /** @type {Record<string, string>} */ ({
  deposit: "Deposit of",
  withdraw: "Withdrawal of",
  send: "Payment of",
});

/** Decimals of the chain that has the most. */
const FINEST = 7;

export class TransferView {
  #drawn = "";
  /** @type {Transfer | null} */
  #transfer = null;
  /** @type {readonly Lane[]} */
  #lanes = [];

  constructor() {
    setInterval(() => this.#tick(), 1_000);
  }

  /**
   * @param {Transfer | null} transfer null while it is asked for
   * @param {string} problem why there is none
   */
  show(transfer, problem) {
    this.#transfer = transfer;
    setText(byId("transfer-problem"), problem);
    byId("transfer-parts").hidden = transfer === null;
    const text = JSON.stringify(transfer);
    if (transfer === null || text === this.#drawn) return;
    this.#drawn = text;
    const coin = coinOf(transfer.route);
    const amount = formatCoin(transfer.amount_in, transfer.source_chain, coin);
    const title = `${TITLES[transfer.direction] ?? ""} ${amount}`;
    setText(byId("transfer-title"), title);
    document.title = `${title} · Isthmus`;
    this.#showStage(transfer);
    byId("timeline").replaceChildren(...transfer.timeline.map((step) => timelineStep(step)));
    byId("transfer-facts").replaceChildren(
      facts(rows(transfer, coin)),
      folded("Its terms, to keep", copyable(text, "the transfer as JSON")),
    );
    byId("refund").hidden = transfer.refund === null;
    byId("refund-facts").replaceChildren(...refundRows(transfer, coin));
    const finish = selfFinish(transfer);
    byId("self-finish").hidden = finish.length === 0;
    byId("self-finish-data").replaceChildren(...finish);
    this.#tick();
  }

  /** @param {Transfer} transfer */
  #showStage({ stage, stage_reason, stage_detail, turn, direction, funding_mode }) {
    const { name, text: known } = stageWords(stage);
    const isLateRefunded =
      funding_mode === "deposit_address" && (stage === "CANCELLED" || stage === "EXPIRED");
    const text = isLateRefunded ? `${known} Late money is refunded.` : known;
    if (byId("stage").textContent !== name) setText(byId("announcement"), `${name}. ${text}`);
    setText(byId("stage"), name);
    byId("stage").dataset.stage = stage;
    const isOwners = ENDED.has(stage) || turn === "user";
    const who = isOwners ? text : `${text} Waiting for ${TURNS[turn] ?? turn}.`;
    setText(byId("stage-text"), who);
    const reason = stage_reason === null ? "" : (REASONS[stage_reason] ?? stage_reason);
    setText(byId("stage-reason"), [reason, stage_detail ?? ""].filter(Boolean).join(" "));
    byId("cancel").hidden = !CANCELLABLE.has(stage);
    byId("action").hidden = ENDED.has(stage);
    byId("transfer").dataset.direction = direction;
  }

  /** @param {readonly Lane[]} lanes with how long their last transfers took */
  showDurations(lanes) {
    this.#lanes = lanes;
    this.#tick();
  }

  /** Times that pass while nothing happens. */
  #tick() {
    if (this.#transfer === null) return;
    const { stage, eta, expires_at } = this.#transfer;
    let text = "";
    if (eta !== null)
      text = arrivalText(eta, latestArrival(this.#transfer, this.#lanes), Date.now());
    else if (CANCELLABLE.has(stage)) text = `Expires in ${formatSpan(secondsUntil(expires_at))}.`;
    setText(byId("arrival"), text);
  }
}

/** @param {string} stage */
function stageWords(stage) {
  return STAGES[stage] ?? { name: stage, text: "" };
}

/** @param {string} time ISO 8601 */
function secondsUntil(time) {
  return Math.max(0, Math.round((Date.parse(time) - Date.now()) / 1000));
}

/** @param {Transfer["timeline"][number]} step */
function timelineStep({ stage, at, clock, chain, tx }) {
  const item = make("li", { "data-stage": stage }, make("b", {}, stageWords(stage).name));
  const by = clock === null || clock === "service" ? "the service" : chainName(clock);
  const when = at === null ? "time not known" : timeElement(at);
  item.append(make("small", {}, when, at === null ? "" : ` by the clock of ${by}`));
  if (tx !== null)
    item.append(
      make("small", {}, `${chainName(chain ?? "")} `, reference(chain, tx, "Transaction")),
    );
  return item;
}

/**
 * @param {Transfer} transfer
 * @param {string} coin
 * @returns {[string, string | Node][]}
 */
function rows(transfer, coin) {
  const { source_chain, dest_chain, amount_delivered } = transfer;
  /** @type {[string, string][]} */
  let outcome = [
    ["Fee, at most", formatCoin(transfer.amount_fee, source_chain, coin)],
    ["Arrives at least", formatCoin(transfer.amount_out, dest_chain, coin)],
  ];
  if (amount_delivered !== null)
    outcome = [
      ["Fee", `${formatAmount(feeTaken(transfer, amount_delivered), FINEST)} ${coin}`],
      ["Arrived", formatCoin(amount_delivered, dest_chain, coin)],
    ];
  else if (ENDED.has(transfer.stage)) outcome = [];
  return [
    ["Amount", formatCoin(transfer.amount_in, source_chain, coin)],
    ...outcome,
    ["From", end(source_chain, transfer.source_address)],
    ["To", end(dest_chain, transfer.dest_address)],
    ["Started", timeElement(transfer.started_at)],
    ["Transfer id", make("code", { class: "address" }, transfer.id)],
  ];
}

/**
 * What did not arrive, with `FINEST` decimals.
 *
 * @param {Transfer} transfer
 * @param {string} delivered
 */
function feeTaken({ amount_in, source_chain, dest_chain }, delivered) {
  /** @type {(amount: string, chain: string) => bigint} */
  const fine = (amount, chain) => BigInt(amount) * 10n ** BigInt(FINEST - decimalsOf(chain));
  return String(fine(amount_in, source_chain) - fine(delivered, dest_chain));
}
