import assert from "node:assert/strict";
import { test } from "node:test";

import { Book, compareOffers } from "../../../api/pages/static/js/market/core/book.js";
import { Backoff } from "../../../api/pages/static/js/shared/backoff.js";
import {
  Clock,
  formatAge,
  formatSpan,
  formatTime,
} from "../../../api/pages/static/js/shared/clock.js";
import {
  formatBps,
  formatUnits,
  isDecimal,
  parseUnits,
  spreadBps,
} from "../../../api/pages/static/js/shared/decimal.js";
import { bestRates, depthSteps, totals } from "../../../api/pages/static/js/market/core/depth.js";
import {
  amountOf,
  ANY,
  choices,
  isSizeBad,
  select,
  wantedSize,
} from "../../../api/pages/static/js/market/core/filters.js";
import { Orders } from "../../../api/pages/static/js/market/core/orders.js";
import { readPlace, writePlace } from "../../../api/pages/static/js/market/core/place.js";
import { entry, offer, order } from "./making.mjs";

const LARGEST = "17014118346046923173168730371588.4105727";

test("an amount of any size is read and written to its last digit", () => {
  for (const text of ["0", "0.0000001", "1.02", "9007199254740993.1", LARGEST]) {
    assert.equal(formatUnits(parseUnits(text)).replaceAll(",", ""), text);
  }
  assert.equal(parseUnits(LARGEST), 2n ** 127n - 1n);
});

test("amounts are grouped by thousands, and have no fewer decimals than asked for", () => {
  assert.equal(formatUnits(parseUnits("1234567.5"), 2), "1,234,567.50");
  assert.equal(formatUnits(parseUnits("999"), 0), "999");
  assert.equal(formatUnits(-parseUnits("1000.25")), "−1,000.25");
});

test("what is no decimal of seven places is refused", () => {
  for (const text of ["", " ", "-1", "1.", ".5", "1e3", "1,5", "0.00000001", "x", "１"]) {
    assert.equal(isDecimal(text), false, text);
    assert.throws(() => parseUnits(text), RangeError);
  }
});

test("basis points are per cent", () => {
  assert.deepEqual([0, 5, 50, 100, 10_000].map(formatBps), [
    "0 %",
    "0.05 %",
    "0.5 %",
    "1 %",
    "100 %",
  ]);
});

test("a spread is rounded to nearest, and can be negative where the book is crossed", () => {
  const bps = (high, low) => spreadBps(parseUnits(high), parseUnits(low));
  assert.equal(bps("1.01", "1"), 100n);
  assert.equal(bps("1.00005", "1"), 1n);
  assert.equal(bps("1.00004", "1"), 0n);
  assert.equal(bps("0.99", "1"), -100n);
});

test("offers stand in the order of the API", () => {
  const sorted = [
    offer({ direction: "offramp", currency: "EUR", rate: "0.9" }),
    offer({ direction: "offramp", currency: "USD", rate: "0.99" }),
    offer({ direction: "offramp", currency: "USD", rate: "0.98" }),
    offer({ currency: "USD", rate: "1.01", availableUsdc: "10" }),
    offer({ currency: "USD", rate: "1.02", availableUsdc: "1000" }),
    offer({ currency: "USD", rate: "1.02", availableUsdc: "999", acceptedRails: ["a"] }),
    offer({ currency: "USD", rate: "1.02", availableUsdc: "999", acceptedRails: ["a", "b"] }),
    offer({ currency: "USD", rate: "1.02", availableUsdc: "999", acceptedRails: ["b"] }),
    offer({ currency: "USD", rate: "1.02", availableUsdc: "999", provider: "GBEN" }),
    // By size, not by text.
    offer({ currency: "USD", rate: "10" }),
  ];
  for (let turn = 0; turn < sorted.length; turn += 1) {
    const turned = [...sorted.slice(turn), ...sorted.slice(0, turn)];
    assert.deepEqual(turned.sort(compareOffers), sorted);
  }
});

test("a ledger is applied as a whole or, when an entry cannot be read, not at all", () => {
  const book = new Book();
  book.apply([{ op: "add", entry: entry() }]);
  const bad = entry({ currency: "EUR", rate: "much" });
  const changes = [
    { op: "remove", entry: entry() },
    { op: "add", entry: bad },
  ];
  assert.throws(() => book.apply(changes), RangeError);
  assert.deepEqual(book.offers, [offer()]);
});

test("an offer is known by provider, direction, currency and rails, and by nothing else", () => {
  const book = new Book();
  book.apply([{ op: "add", entry: entry() }]);
  book.apply([{ op: "update", entry: entry({ rate: "2", maxAmount: "5", feeRateBps: 1 }) }]);
  assert.equal(book.offers.length, 1);
  for (const other of [
    { provider: "GBEN" },
    { direction: "offramp" },
    { currency: "EUR" },
    { acceptedRails: ["venmo", "wise"] },
  ]) {
    book.apply([{ op: "add", entry: entry(other) }]);
  }
  assert.equal(book.offers.length, 5);
  book.apply([{ op: "remove", entry: entry() }]);
  assert.equal(book.offers.length, 4);
});

test("depth counts a provider's escrow once, at its best rate", () => {
  const offers = [
    offer({ provider: "GANA", rate: "1.03", acceptedRails: ["wise"] }),
    offer({ provider: "GANA", rate: "1.01" }),
    offer({ provider: "GBEN", rate: "1.02", availableUsdc: "7.5" }),
    offer({ provider: "GEVE", rate: "1.02", availableUsdc: "0.5" }),
    offer({ provider: "GEVE", rate: "0.99", direction: "offramp" }),
  ];
  const told = (direction) =>
    depthSteps(offers, direction).map((step) => [
      formatUnits(step.rate),
      formatUnits(step.available),
      step.providers,
    ]);
  assert.deepEqual(told("onramp"), [
    ["1.01", "100", 1],
    ["1.02", "108", 3],
    ["1.03", "108", 3],
  ]);
  assert.deepEqual(told("offramp"), [["0.99", "100", 1]]);
});

test("who sells looks for high rates: depth grows as they fall", () => {
  const offers = ["0.97", "0.99", "0.98"].map((rate, index) =>
    offer({ provider: `G${index}`, direction: "offramp", rate, availableUsdc: "10" }),
  );
  const steps = depthSteps(offers, "offramp");
  assert.deepEqual(
    steps.map(({ rate }) => formatUnits(rate)),
    ["0.99", "0.98", "0.97"],
  );
});

test("best rates are those of the first offer on each side", () => {
  const offers = [
    offer({ direction: "offramp", currency: "USD", rate: "0.99" }),
    offer({ currency: "EUR", rate: "0.94" }),
    offer({ currency: "USD", rate: "1.0098" }),
    offer({ currency: "USD", rate: "1.02", acceptedRails: ["wise"] }),
  ];
  const told = bestRates(offers).map((best) => [
    best.currency,
    best.onramp?.entry.rate,
    best.offramp?.entry.rate,
    best.spreadBps,
    best.offers,
  ]);
  assert.deepEqual(told, [
    ["EUR", "0.94", undefined, undefined, 1],
    ["USD", "1.0098", "0.99", 200n, 3],
  ]);
});

test("totals count distinct providers", () => {
  const offers = [offer(), offer({ currency: "EUR" }), offer({ provider: "GBEN" })];
  assert.deepEqual(totals(offers), { available: parseUnits("200"), offers: 3, providers: 2 });
});

test("filters keep what takes an order of that size, both limits included", () => {
  const offers = [offer({ acceptedRails: ["venmo", "wise"] }), offer({ direction: "offramp" })];
  const count = (filters) => select(offers, { ...ANY, ...filters }).length;
  assert.equal(count({}), 2);
  assert.equal(count({ direction: "offramp" }), 1);
  assert.equal(count({ rail: "wise" }), 1);
  assert.equal(count({ rail: "wis" }), 0);
  assert.equal(count({ currency: "EUR" }), 0);
  for (const [amount, fitting] of [
    ["9.9999999", 0],
    ["10", 2],
    [" 50 ", 2],
    ["50.0000001", 0],
  ])
    assert.equal(count({ amount }), fitting, amount);
  // While a number is being typed nothing is hidden.
  assert.equal(count({ amount: "1." }), 2);
  assert.equal(isSizeBad("1."), true);
  assert.deepEqual(choices(offers), { currencies: ["USD"], rails: ["venmo", "wise"] });
});

test("a size in fiat is that of an order at each offer's own rate", () => {
  const rates = ["1.0098", "3", "0.7", "0"];
  const offers = ["onramp", "offramp"].flatMap((direction) =>
    rates.map((rate) => offer({ direction, rate, minAmount: "0.0000001", maxAmount: "100" })),
  );
  const unit = 10n ** 7n;
  for (const fiat of ["10", "0.0000001", "33.3333333"]) {
    const wanted = parseUnits(fiat);
    const filters = { ...ANY, currency: "USD", fiat };
    for (const each of offers.filter(({ rate }) => rate > 0n)) {
      const usdc = amountOf(filters, each);
      // Within the smallest step: buying costs no more, selling brings no less.
      if (each.entry.direction === "onramp") {
        assert.ok(usdc * each.rate <= wanted * unit && (usdc + 1n) * each.rate > wanted * unit);
      } else {
        assert.ok(usdc * each.rate >= wanted * unit && (usdc - 1n) * each.rate < wanted * unit);
      }
    }
  }
  const fitting = select(offers, { ...ANY, currency: "USD", fiat: "100" });
  // At 1.0098 some 99 USDC, at 3 some 33; at 0.7 more than the offers take; at 0 none.
  assert.deepEqual(
    fitting.map(({ entry }) => entry.rate),
    ["1.0098", "3", "1.0098", "3"],
  );
  assert.deepEqual(wantedSize({ ...ANY, currency: "USD", fiat: "100" }), {
    units: parseUnits("100"),
    unit: "USD",
  });
  assert.equal(isSizeBad("1,5"), true);
});

test("a place is what its address says", () => {
  const there = (text) => writePlace(readPlace(new URLSearchParams(text)));
  assert.equal(there(""), "./");
  assert.equal(
    there("direction=onramp&currency=usd&rail=wise&amount=12.5"),
    "./?direction=onramp&currency=USD&rail=wise&amount=12.5",
  );
  assert.equal(there("direction=up&more=1"), "./");
  // One size at a time, and in fiat only of a currency.
  assert.equal(there("currency=eur&fiat=50"), "./?currency=EUR&fiat=50");
  assert.equal(there("currency=EUR&amount=7&fiat=50"), "./?currency=EUR&amount=7");
  assert.equal(there("fiat=50"), "./");
  assert.equal(there("provider=GANA&currency=USD"), "./?provider=GANA");
});

test("the newest orders come first, and there are no more than asked for", () => {
  const orders = new Orders(2);
  orders.take([
    order({ intentId: "b", createdAt: "2026-11-21T08:00:05Z" }),
    order({ intentId: "a", createdAt: "2026-11-21T08:00:05Z" }),
    order({ intentId: "c", createdAt: "2026-11-21T08:00:04Z" }),
  ]);
  assert.deepEqual(
    orders.newest.map(({ intentId }) => intentId),
    ["a", "b"],
  );
});

test("an older list takes back nothing that the stream has told", () => {
  const orders = new Orders(9);
  orders.take([order()]);
  const [first] = orders.newest;
  orders.take([order()]);
  assert.equal(orders.newest[0], first);
  orders.take([order({ status: "fulfilled", txHash: "ff" })]);
  orders.take([order()]);
  orders.take([order({ status: "expired" })]);
  assert.deepEqual(orders.newest, [order({ status: "fulfilled", txHash: "ff" })]);
});

test("spans of time have two units at most, ages one", () => {
  const spans = [0, 59, 60, 125, 3_600, 7_260, 86_400 * 3 + 7_200].map(formatSpan);
  assert.deepEqual(spans, ["0 s", "59 s", "1 min", "2 min 05 s", "1 h", "2 h 01 min", "3 d 02 h"]);
  assert.equal(formatAge(125), "2 min");
});

test("a time has its date unless it is of today, and its year unless it is of this one", (t) => {
  const at = (year, month, day) => new Date(year, month - 1, day, 17, 5, 3);
  t.mock.timers.enable({ apis: ["Date"], now: at(2026, 1, 2) });
  assert.equal(formatTime(at(2026, 1, 2).toISOString()), "17:05:03");
  assert.equal(formatTime(at(2026, 1, 1).getTime()), "1 Jan, 17:05:03");
  assert.equal(formatTime(at(2025, 12, 31).getTime()), "31 Dec 2025, 17:05:03");
});

test("pauses double up to the longest, and are random from half of it on", (t) => {
  const random = t.mock.method(Math, "random", () => 0);
  const backoff = new Backoff(5_000);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map(() => backoff.next()),
    [500, 1_000, 2_000, 2_500, 2_500],
  );
  random.mock.mockImplementation(() => 1);
  assert.equal(backoff.next(), 5_000);
  backoff.reset();
  assert.equal(backoff.next(), 1_000);
});

test("ages are reckoned by the server's clock", (t) => {
  const ours = Date.parse("2026-11-21T12:00:00Z");
  t.mock.timers.enable({ apis: ["Date"], now: ours });
  const clock = new Clock();
  clock.adjust("Sat, 21 Nov 2026 08:00:00 GMT");
  const age = () => clock.secondsSince("2026-11-21T07:59:18Z");
  assert.equal(age(), 42);
  t.mock.timers.setTime(ours + 10_000);
  assert.equal(age(), 52);
  // What is no time changes nothing.
  clock.adjust(null);
  clock.adjust("never");
  assert.equal(age(), 52);
  assert.equal(clock.secondsSince("2026-11-21T09:00:00Z"), 0);
});
