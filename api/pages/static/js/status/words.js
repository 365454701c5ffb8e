// @ts-check
/**
 * Words for the codes of the API. A code that is newer than this page is shown as it is.
 */

/** @type {Record<string, string>} */
const REASONS = {
  NOT_STARTED: "not read yet",
  ON_HOLD: "on hold",
  NOT_FOLLOWED: "not being followed",
  NODE_FAILING: "its node fails",
  STOPPED: "stands still",
  LATE: "behind its head",
};

/** @type {Record<string, string>} */
const INCIDENTS = {
  INGESTION_STOPPED: "Reading of the chain stopped",
  EVENTS_UNREADABLE: "Some events could not be read",
  OFFERS_HIDDEN: "Offers of some providers were hidden",
  UNPROVEN_BLOCK: "Transfers waited for the proof of a block",
  ATTESTATION: "An attestation was not accepted",
};

/** @type {Record<string, string>} */
const ROUTES = {
  "usdc-deposit": "USDC deposit",
  "usdc-withdraw": "USDC withdrawal",
  "usdc-send": "USDC send",
  "usdt0-deposit": "USDT0 deposit",
  "usdt0-withdraw": "USDT0 withdrawal",
  "usdt0-send": "USDT0 send",
};

/** @param {string | null} reason */
export const describeReason = (reason) =>
  reason === null ? "healthy" : (REASONS[reason] ?? reason);

/** @param {string} kind */
export const describeIncident = (kind) => INCIDENTS[kind] ?? kind;

/** @param {string} route */
export const describeRoute = (route) => ROUTES[route] ?? route;
