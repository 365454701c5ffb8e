// Sorting, CSV, prices by day, and the call that takes an offer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { OFFER_COLUMNS, toCsv } from "../../../api/pages/static/js/market/core/csv.js";
import { priceDays, railsOf } from "../../../api/pages/static/js/market/core/history.js";
import { rateOf } from "../../../api/pages/static/js/market/core/orders.js";
import {
  nextSorting,
  OFFER_KEYS,
  sorted,
} from "../../../api/pages/static/js/market/core/sorting.js";
import {
  fiatFor,
  javascriptProgram,
  openArguments,
  pythonProgram,
  takenAmount,
} from "../../../api/pages/static/js/market/core/take.js";
import { formatUnits, parseUnits } from "../../../api/pages/static/js/shared/decimal.js";
import { offer, order } from "./making.mjs";

const PROVIDER = `G${"A".repeat(55)}`;
const ESCROW = {
  network: "devnet",
  passphrase: 'A "quoted" phrase',
  contract: `C${"A".repeat(55)}`,
};

test("cells that a spreadsheet would evaluate begin with an apostrophe", () => {
  const cells = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", 'a"b', "a,b\nc", "1", undefined];
  const text = toCsv({ cell: (item) => item }, cells);
  assert.equal(
    text,
    [
      '"cell"',
      '"\'=1+1"',
      '"\'+1"',
      '"\'-1"',
      '"\'@SUM(A1)"',
      '"\'\t=1"',
      '"\'\r=1"',
      '"a""b"',
      '"a,b\nc"',
      '"1"',
      '""',
      "",
    ].join("\r\n"),
  );
});

test("a file of offers has no payment handle", () => {
  const text = toCsv(OFFER_COLUMNS, [offer({ paymentHandles: { venmo: "@maria" } })]);
  assert.doesNotMatch(text, /maria/);
  assert.match(text, /^"provider",.*\r\n"GANA","onramp","USD","1.02",/);
});

test("the rate of an order is the exact rate of its terms, either way it was rounded", () => {
  for (const rate of ["0.0000001", "0.3333333", "1.02", "5.4812345", "17000.1234567"]) {
    for (const amount of ["1", "1.0000001", "33.3333333", "499.9999999"]) {
      const exact = parseUnits(rate) * parseUnits(amount);
      const unit = 10_000_000n;
      const up = (exact + unit - 1n) / unit;
      const text = (units) => formatUnits(units).replaceAll(",", "");
      const paid = { amountUsdc: amount, fiatAmount: text(up) };
      assert.equal(rateOf(order({ ...paid, direction: "onramp" })), parseUnits(rate));
      const got = { amountUsdc: amount, fiatAmount: text(exact / unit) };
      assert.equal(rateOf(order({ ...got, direction: "offramp" })), parseUnits(rate));
    }
  }
});

test("rates are sorted within their currency, and descending turns only the rates round", () => {
  const offers = ["USD 2", "EUR 10", "USD 1", "EUR 9"].map((text) => {
    const [currency, rate] = text.split(" ");
    return offer({ currency, rate });
  });
  const told = (descending) =>
    sorted(offers, OFFER_KEYS, { column: "rate", descending }).map(({ entry }) => entry.rate);
  assert.deepEqual(told(false), ["9", "10", "1", "2"]);
  assert.deepEqual(told(true), ["10", "9", "2", "1"]);
});

test("rows that compare as equal keep the API's order, in either direction", () => {
  const offers = ["GANA", "GBEN", "GEVE"].map((provider) => offer({ provider }));
  for (const descending of [false, true])
    assert.deepEqual(sorted(offers, OFFER_KEYS, { column: "fee", descending }), offers);
  assert.equal(sorted(offers, OFFER_KEYS, null), offers);
});

test("a header sorts up, then down, then not at all", () => {
  const up = nextSorting(null, "fee");
  const down = nextSorting(up, "fee");
  assert.deepEqual(up, { column: "fee", descending: false });
  assert.deepEqual(down, { column: "fee", descending: true });
  assert.equal(nextSorting(down, "fee"), null);
  assert.deepEqual(nextSorting(down, "rate"), { column: "rate", descending: false });
});

const market = (fields) => ({
  day: "2026-11-20",
  direction: "onramp",
  rail: "wise",
  rate: "1",
  volumeUsdc: "10",
  volumeFiat: "10",
  fulfilledOrders: 1,
  ...fields,
});
const HISTORY = { currency: "EUR", firstDay: "2026-10-31", lastDay: "2026-11-20" };

test("rails of a day count by their volume", () => {
  const days = [
    market({ volumeUsdc: "30", volumeFiat: "27.9" }),
    market({ rail: "revolut", volumeUsdc: "10", volumeFiat: "9.5", fulfilledOrders: 2 }),
    market({ direction: "offramp", volumeFiat: "9" }),
  ];
  const last = priceDays({ ...HISTORY, days }, "").at(-1);
  assert.deepEqual(last.onramp, {
    rate: parseUnits("0.935"),
    volume: parseUnits("40"),
    orders: 3,
  });
  assert.equal(last.offramp.rate, parseUnits("0.9"));
  assert.equal(priceDays({ ...HISTORY, days }, "revolut").at(-1).onramp.rate, parseUnits("0.95"));
  assert.deepEqual(railsOf({ days }), ["revolut", "wise"]);
});

test("a day on which nothing was settled has no rate, and a day that is not known no entry", () => {
  const days = [
    market({ volumeUsdc: "0", volumeFiat: "0" }),
    market({ direction: "offramp", volumeFiat: null, rate: null }),
  ];
  const all = priceDays({ ...HISTORY, days }, "");
  assert.equal(all.length, 21);
  assert.deepEqual(all[1], { day: "2026-11-01", onramp: null, offramp: null });
  assert.deepEqual(all.at(-1), { day: "2026-11-20", onramp: null, offramp: null });
  assert.deepEqual(priceDays({ ...HISTORY, firstDay: null, lastDay: null, days: [] }, ""), []);
});

test("the amount of an order lies within the offer's limits", () => {
  const within = (typed) => takenAmount(offer(), typed);
  assert.equal(within(" 12.5 "), parseUnits("12.5"));
  assert.deepEqual(["9.9", "50.0000001", "", "1,5", "x"].map(within), Array(5).fill(null));
});

test("fiat is rounded as the contract rounds it", () => {
  const third = { rate: "0.3333333" };
  const amount = parseUnits("10.5");
  assert.equal(fiatFor(offer(third), amount), parseUnits("3.4999997"));
  assert.equal(fiatFor(offer({ ...third, direction: "offramp" }), amount), parseUnits("3.4999996"));
});

test("no text but symbols and addresses gets into a program", () => {
  for (const fields of [
    { acceptedRails: ['x"); import os; os.remove("y'] },
    { currency: "US\n" },
    { provider: `${PROVIDER}"` },
    { direction: "`${x}`" },
  ]) {
    const bad = offer({ provider: PROVIDER, ...fields });
    assert.throws(() => openArguments(bad, bad.entry.acceptedRails[0], 1n), RangeError);
  }
});

test("both programs name the contract, the network and all arguments in order", () => {
  const args = openArguments(offer({ provider: PROVIDER }), "venmo", 125_000_000n);
  assert.deepEqual(
    args.map(({ name }) => name),
    ["taker", "provider", "direction", "rail", "currency", "amount", "payee_hash", "prune"],
  );
  for (const program of [pythonProgram(ESCROW, args), javascriptProgram(ESCROW, args)]) {
    assert.ok(program.includes(ESCROW.contract));
    assert.ok(program.includes('"A \\"quoted\\" phrase"'));
    assert.ok(program.includes("125000000"));
    assert.doesNotMatch(program, /PAYEE/);
  }
  const sells = openArguments(offer({ provider: PROVIDER, direction: "offramp" }), "venmo", 1n);
  for (const program of [pythonProgram(ESCROW, sells), javascriptProgram(ESCROW, sells)])
    assert.match(program, /PAYEE: where you take the fiat/);
});
