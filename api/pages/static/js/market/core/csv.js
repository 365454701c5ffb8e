// @ts-check
/**
 * Tables as CSV (RFC 4180), safe to open in a spreadsheet.
 */

/** A spreadsheet takes a cell that begins with one of these for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * One cell, quoted. What a spreadsheet would evaluate gets an apostrophe in front, which it hides.
 *
 * @param {string | number | undefined} value undefined is an empty cell
 */
function toCell(value) {
  const text = String(value ?? "");
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/**
 * A file with a header line.
 *
 * @template T
 * @param {Record<string, (item: T) => string | number | undefined>} columns name → its value
 * @param {readonly T[]} items a line each
 */
export function toCsv(columns, items) {
  const lines = [
    Object.keys(columns),
    ...items.map((item) => Object.values(columns).map((read) => read(item))),
  ];
  return lines.map((line) => `${line.map(toCell).join(",")}\r\n`).join("");
}

/**
 * Columns of offers as the API writes them. Payment handles are personal data and left out.
 *
 * @type {Record<string, (offer: import("./book.js").Offer) => string | number>}
 */
export const OFFER_COLUMNS = {
  provider: ({ entry }) => entry.provider,
  direction: ({ entry }) => entry.direction,
  currency: ({ entry }) => entry.currency,
  rate: ({ entry }) => entry.rate,
  minAmount: ({ entry }) => entry.minAmount,
  maxAmount: ({ entry }) => entry.maxAmount,
  availableUsdc: ({ entry }) => entry.availableUsdc,
  lockedUsdc: ({ entry }) => entry.lockedUsdc,
  acceptedRails: ({ entry }) => entry.acceptedRails.join(" "),
  trustTier: ({ entry }) => entry.trustTier,
  feeRateBps: ({ entry }) => entry.feeRateBps,
  completedOrders: ({ entry }) => entry.completedOrders,
  avgFulfillmentSeconds: ({ entry }) => entry.avgFulfillmentSeconds,
  lastActiveAt: ({ entry }) => entry.lastActiveAt,
};

/**
 * Columns of orders as the API writes them.
 *
 * @type {Record<string, (order: import("./orders.js").Order) => string | number | undefined>}
 */
export const ORDER_COLUMNS = {
  intentId: (order) => order.intentId,
  createdAt: (order) => order.createdAt,
  expiresAt: (order) => order.expiresAt,
  status: (order) => order.status,
  direction: (order) => order.direction,
  rail: (order) => order.rail,
  currency: (order) => order.currency,
  amountUsdc: (order) => order.amountUsdc,
  fiatAmount: (order) => order.fiatAmount,
  trustTier: (order) => order.trustTier,
  provider: (order) => order.provider,
  buyer: (order) => order.buyer,
  txHash: (order) => order.txHash,
  releasedUsdc: (order) => order.releasedUsdc,
};
