// Offers, orders and messages with good defaults: name what the test is about.

import { readOffer } from "../../../api/pages/static/js/market/core/book.js";

export function entry(fields = {}) {
  return {
    provider: "GANA",
    direction: "onramp",
    availableUsdc: "100",
    lockedUsdc: "0",
    acceptedRails: ["venmo"],
    paymentHandles: {},
    trustTier: 2,
    feeRateBps: 50,
    rate: "1.02",
    currency: "USD",
    minAmount: "10",
    maxAmount: "50",
    completedOrders: 0,
    avgFulfillmentSeconds: 0,
    lastActiveAt: "2026-11-21T08:00:00Z",
    ...fields,
  };
}

export const offer = (fields) => readOffer(entry(fields));

export function order(fields = {}) {
  return {
    intentId: "aa",
    buyer: "GTOM",
    provider: "GANA",
    direction: "onramp",
    rail: "venmo",
    currency: "USD",
    amountUsdc: "40",
    fiatAmount: "40.8",
    status: "active",
    trustTier: 2,
    createdAt: "2026-11-21T08:00:00Z",
    expiresAt: "2026-11-21T08:10:00Z",
    ...fields,
  };
}
