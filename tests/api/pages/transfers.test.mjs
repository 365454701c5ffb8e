import assert from "node:assert/strict";
import { test } from "node:test";

import { Keypair, TransactionBuilder } from "@stellar/stellar-sdk";

import {
  coinOf,
  decimalsOf,
  formatAmount,
  formatCoin,
  parseAmount,
} from "../../../api/pages/static/js/transfers/core/amounts.js";
import {
  arrivalText,
  latestArrival,
  usualTime,
} from "../../../api/pages/static/js/transfers/core/arrival.js";
import { openSeed } from "../../../api/pages/static/js/transfers/wallets/seed.js";
import { WalletError } from "../../../api/pages/static/js/transfers/wallets/stellar.js";

test("an amount is read exactly, and nothing else is", () => {
  assert.equal(parseAmount("12.5", 6), 12_500_000n);
  assert.equal(parseAmount(" 0.0000001 ", 7), 1n);
  assert.equal(parseAmount("20", 7), 200_000_000n);
  for (const text of ["", "1,5", "-1", "1e3", "0.0000001", ".5", "5.", "0x10", "1 000"])
    assert.equal(parseAmount(text, 6), null, text);
});

test("an amount is written with all its digits and no zeros behind", () => {
  assert.equal(formatAmount("12500000", 6), "12.5");
  assert.equal(formatAmount("1", 7), "0.0000001");
  assert.equal(formatAmount("0", 6), "0");
  assert.equal(
    formatAmount("123456789012345678901234567", 7),
    "12,345,678,901,234,567,890.1234567",
  );
  assert.equal(formatCoin("1234000000", "eip155:1", "USDC"), "1,234 USDC");
});

test("decimals follow the chain, the coin the route", () => {
  assert.equal(decimalsOf("stellar:pubnet"), 7);
  assert.equal(decimalsOf("eip155:1"), 6);
  assert.equal(coinOf("usdt0-withdraw"), "USDT0");
});

const LANE = { route: "usdc-deposit", source_chain: "eip155:1", dest_chain: "stellar:pubnet" };
const TIMELINE = [
  { stage: "AWAITING_FUNDS", at: "2026-11-24T13:00:00Z" },
  { stage: "FUNDED", at: null },
  // Clocks of two chains: the order of cause is not that of time.
  { stage: "SUBMITTED", at: "2026-11-24T14:00:00Z" },
  { stage: "CONFIRMING", at: "2026-11-24T13:59:50Z" },
];

test("9 of 10 are counted from the first stage that does not wait for the owner", () => {
  const transfer = { ...LANE, timeline: TIMELINE };
  const began = Date.parse("2026-11-24T13:59:50Z");
  const back = { ...LANE, source_chain: LANE.dest_chain, dest_chain: LANE.source_chain };
  const lanes = [
    { ...back, p90_seconds: 7 },
    { ...LANE, p90_seconds: 720 },
  ];
  assert.equal(latestArrival(transfer, lanes), began + 720_000);
});

test("the time of a quote is what the route's last transfers took", () => {
  const lane = { ...LANE, expected_seconds: 40, median_seconds: 34, p90_seconds: 125 };
  const other = { ...lane, dest_chain: "stellar:testnet", expected_seconds: 1 };
  assert.equal(
    usualTime(LANE, [other, lane]),
    "half of today's arrived within 34 s; 9 of 10 of the last 30 days within 2 min 05 s; " +
      "usual for the networks: 40 s",
  );
  assert.equal(
    usualTime(LANE, [{ ...lane, median_seconds: null, p90_seconds: null }]),
    "usual for the networks: 40 s",
  );
  const older = { ...LANE, expected_seconds: 40, median_seconds: null };
  assert.equal(usualTime(LANE, [older]), "usual for the networks: 40 s");
  assert.equal(usualTime(LANE, [other]), "");
});

test("9 of 10 are not known without a figure, a route or a time", () => {
  const transfer = { ...LANE, timeline: TIMELINE };
  assert.equal(latestArrival(transfer, []), null);
  assert.equal(latestArrival(transfer, [{ ...LANE, p90_seconds: null }]), null);
  // A process of an older version.
  assert.equal(latestArrival(transfer, [LANE]), null);
  const unpaid = { ...transfer, timeline: TIMELINE.slice(0, 2) };
  assert.equal(latestArrival(unpaid, [{ ...LANE, p90_seconds: 720 }]), null);
});

test("the arrival is said with its spread, and without one alone", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 10, 24, 14) });
  const at = (minute) => Date.UTC(2026, 10, 24, 14, minute);
  const time = (minute) => new Date(at(minute)).toLocaleTimeString("en-GB");
  const eta = new Date(at(5)).toISOString();
  const expected = `Expected at ${time(5)}, in 2 min`;
  const late = `Expected by ${time(5)}: it is later than usual, and goes on`;
  const most = `9 of 10 on this route arrive by ${time(12)}`;
  assert.equal(arrivalText(eta, at(12), at(3)), `${expected}; ${most}.`);
  assert.equal(arrivalText(eta, null, at(3)), `${expected}.`);
  assert.equal(arrivalText(eta, at(5), at(3)), `${expected}.`);
  assert.equal(arrivalText(eta, at(12), at(5)), `${late}; ${most}.`);
  assert.equal(arrivalText(eta, null, at(6)), `${late}.`);
  const past = `${late}. 9 of 10 on this route had arrived by ${time(12)}.`;
  assert.equal(arrivalText(eta, at(12), at(12)), past);
});

/** An unsigned payment of the key, and another key's signature when that is wanted. */
async function payment(key, passphrase, signer = null) {
  const { Account, Asset, BASE_FEE, Operation } = await import("@stellar/stellar-sdk");
  const source = new Account(key.publicKey(), "41");
  const built = new TransactionBuilder(source, { fee: BASE_FEE, networkPassphrase: passphrase })
    .addOperation(
      Operation.payment({ destination: key.publicKey(), asset: Asset.native(), amount: "1" }),
    )
    .setTimeout(0)
    .build();
  if (signer !== null) built.sign(signer);
  return built;
}

for (const other of [null, Keypair.random()])
  test(`a seed signs as Stellar's SDK does, ${other ? "after another key" : "alone"}`, async () => {
    const key = Keypair.random();
    const passphrase = "Standalone Network ; February 2017";
    const transaction = await payment(key, passphrase, other);
    const wallet = await openSeed(`  ${key.secret()} `);
    assert.equal(await wallet.connect(), key.publicKey());
    const signed = await wallet.sign(transaction.toXDR(), passphrase, key.publicKey());
    transaction.sign(key);
    assert.equal(signed, transaction.toXDR());
  });

test("a mistyped seed, an account and a text are refused", async () => {
  const seed = Keypair.fromRawEd25519Seed(Buffer.alloc(32, 7)).secret();
  const typed = seed.replace("BYH", "YBH");
  assert.notEqual(typed, seed);
  for (const text of [typed, Keypair.random().publicKey(), "S", "", seed.slice(1), "seed!"])
    await assert.rejects(openSeed(text), WalletError, text);
});

test("what is no transaction is not signed", async () => {
  const key = Keypair.random();
  const wallet = await openSeed(key.secret());
  const bump = Buffer.alloc(200);
  bump.writeUInt32BE(5);
  await assert.rejects(wallet.sign(bump.toString("base64"), "any", key.publicKey()), WalletError);
  const two = await payment(key, "any", Keypair.random());
  two.sign(Keypair.random());
  await assert.rejects(wallet.sign(two.toXDR(), "any", key.publicKey()), WalletError);
});
