// @ts-check
/**
 * The API's stages, reasons and parties in sentences. What is not listed is shown as it is.
 */

/** @type {Record<string, { name: string, text: string }>} */
export const STAGES = {
  AWAITING_FUNDS: { name: "Waiting for your payment", text: "Pay to the deposit address." },
  FUNDED: { name: "Paid", text: "The service moves your deposit on." },
  AWAITING_SIGNATURE: { name: "Waiting for your signature", text: "Sign with your wallet." },
  SUBMITTED: { name: "Sent", text: "Your transaction waits for a block of its chain." },
  CONFIRMING: { name: "Confirming", text: "The source chain makes your transaction final." },
  ATTESTING: { name: "Attesting", text: "Circle's attestation service signs the message." },
  IN_FLIGHT: { name: "In flight", text: "LayerZero verifies the message." },
  AWAITING_TRUSTLINE: { name: "Waiting for your trustline", text: "Open it to be paid." },
  DELIVERING: { name: "Delivering", text: "The money is sent to its recipient." },
  COMPLETED: { name: "Completed", text: "The money has arrived." },
  CANCELLED: { name: "Cancelled", text: "Nothing was moved." },
  EXPIRED: { name: "Expired", text: "Nothing came in time." },
  REFUNDING: { name: "Refunding", text: "The service returns your deposit." },
  REFUNDED: { name: "Refunded", text: "Your deposit was returned." },
  ON_HOLD: { name: "On hold", text: "An operator has to act." },
};

export const ENDED = new Set(["COMPLETED", "CANCELLED", "EXPIRED", "REFUNDED"]);

/** Stages that `POST …/cancel` accepts. */
export const CANCELLABLE = new Set(["AWAITING_FUNDS", "FUNDED", "AWAITING_SIGNATURE"]);

/** @type {Record<string, string>} `turn` of a transfer */
export const TURNS = {
  user: "you",
  relay: "the service",
  chain: "the chain",
  "attestation service": "Circle's attestation service",
  "message layer": "LayerZero",
  operator: "an operator of the service",
  nobody: "nobody",
};

/** @type {Record<string, string>} `stage_reason` */
export const REASONS = {
  short_payment: "The payment is below the amount. Send the rest, or it is returned at expiry.",
  wrong_token: "Another token was paid. It is returned.",
  not_included: "The transaction is in no block yet.",
  would_fail: "The transaction would fail now. It is not sent, and checked again until it expires.",
  transaction_failed: "Your last transaction failed.",
  source_reorged: "The chain removed your transaction. It is expected again: do not pay twice.",
  not_final: "The transaction is not final yet.",
  not_attested: "The message is not signed yet.",
  not_verified: "The message is not verified yet.",
  not_delivered: "The delivery is not in a block yet.",
  no_trustline: "The recipient cannot hold the asset yet.",
  cancelled: "You cancelled it.",
  expired: "It expired.",
  below_minimum: "What is left at the deposit address is too little to be returned on its own.",
  held: "An operator has to act.",
};

/** @type {Record<string, string>} `reason` of an answer without an action; `paid` and `signed` are ours */
export const IDLE = {
  signed: "You have signed. The service sends the transaction.",
  paid: "Your payment is sent. The service shows it once it has read its block: do not pay again.",
  waiting: "There is nothing for you to do now.",
  over: "This transfer has ended.",
  expired: "The time to act is over.",
  no_trustline: "Open a trustline first.",
  not_authorized: "The asset's issuer has not authorized the recipient's trustline.",
  no_room: "The recipient's trustline has no room for the amount.",
  would_fail: "Your transaction would fail now. Check that the account has the amount.",
  recipient_refused: "The asset's issuer refuses the recipient.",
  paused: "The asset or the bridge is paused. Try again later.",
};

/** @type {Record<string, string>} what a call does, by its selector */
export const CALLS = {
  "0x095ea7b3": "approve: the bridge may take the amount",
  "0x779b432d": "depositForBurnWithHook: Circle's bridge burns it for the recipient",
  "0xc7c7f5b3": "send: LayerZero's bridge sends it to the recipient",
};

/** @type {Record<string, string>} why a trustline is not sponsored */
export const UNSPONSORED = {
  no_sponsor: "the service sponsors no trustlines now",
  budget_used: "the service has used its budget of today",
  payer_budget_used: "the paying address has used its budget of today",
  deposit_too_small: "the deposit is too small for it",
  already_sponsored: "the service paid for one before",
  failed_too_often: "earlier attempts failed",
};

/** @type {Record<string, string>} names of fees in a quote */
export const FEES = {
  cctp_fast_fee: "Circle's fee for a fast transfer, at most",
  cctp_standard_fee: "Circle's fee, at most",
  oft_fee: "USDT0's fee",
  service_fee: "Fee of this service",
  lz_native_fee: "LayerZero's fee, with your transaction; the excess returns",
  relay_gas: "Gas of the delivery",
  deposit_sweep: "Gas of moving the deposit on",
  sponsored_reserve: "Reserve of your trustline",
};
