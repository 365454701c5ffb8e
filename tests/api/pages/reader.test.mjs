import assert from "node:assert/strict";
import { test } from "node:test";

import { BrokenStream, Reader } from "../../../api/pages/static/js/market/feed/reader.js";
import { entry, order } from "./making.mjs";

/** A reader, and how to tell it messages in a row: what each gave back. */
function reading() {
  const reader = new Reader();
  let seq = 999_990;
  const tell = (...messages) =>
    messages.map((message) => {
      seq += 1;
      return reader.take(JSON.stringify({ ...message, seq, prevSeq: seq - 1 }));
    });
  return { reader, tell };
}

const add = (ledger, fields = {}) => ({
  channel: "orderbook",
  op: "add",
  entry: entry(),
  ledger,
  ...fields,
});
const last = { last: true, closedAt: "2026-11-21T08:00:00Z" };

test("the first ledger of a connection is the whole book, those after it are changes", () => {
  const { tell } = reading();
  const [nothing, snapshot] = tell(add(7), add(7, last));
  assert.equal(nothing, null);
  assert.deepEqual(snapshot, {
    isSnapshot: true,
    ledger: 7,
    closedAt: last.closedAt,
    changes: [
      { op: "add", entry: entry() },
      { op: "add", entry: entry() },
    ],
    orders: [],
  });
  const intent = { channel: "intent", intent: order(), ledger: 8 };
  const [, next] = tell(intent, { ...add(8, last), op: "remove" });
  assert.equal(next.isSnapshot, false);
  assert.deepEqual(next.orders, [order()]);
  assert.deepEqual(next.changes, [{ op: "remove", entry: entry() }]);
});

test("an empty book and a quiet ledger are told by a marker", () => {
  const { tell } = reading();
  const [snapshot, quiet] = tell(
    { channel: "ledger", ledger: 7, ...last },
    { channel: "ledger", ledger: 8, ...last },
  );
  assert.deepEqual([snapshot.isSnapshot, snapshot.changes], [true, []]);
  assert.deepEqual([quiet.isSnapshot, quiet.ledger], [false, 8]);
});

test("a connection that resumes goes on with what was missed", () => {
  const { tell } = reading();
  const opening = { channel: "stream", mode: "resume", ledger: 7 };
  const [nothing, missed] = tell(opening, add(9, last));
  assert.equal(nothing, null);
  assert.deepEqual([missed.isSnapshot, missed.ledger], [false, 9]);
});

test("a connection that resumes may have missed nothing", () => {
  const { tell } = reading();
  const [caughtUp] = tell({ channel: "stream", mode: "resume", ledger: 7, ...last });
  assert.deepEqual([caughtUp.isSnapshot, caughtUp.ledger, caughtUp.changes], [false, 7, []]);
});

test("a connection that cannot resume begins with the whole book", () => {
  const { tell } = reading();
  const opening = { channel: "stream", mode: "snapshot", ledger: 12 };
  const [, snapshot] = tell(opening, add(12, last));
  assert.equal(snapshot.isSnapshot, true);
  const [empty] = reading().tell({ ...opening, ...last });
  assert.deepEqual([empty.isSnapshot, empty.changes], [true, []]);
});

test("of a ledger that others followed before it was told the time is not known", () => {
  const { tell } = reading();
  const [missed] = tell(add(7, { last: true }));
  assert.equal(missed.closedAt, null);
});

test("a message that is missing, or makes no sense, breaks the connection", () => {
  const { reader, tell } = reading();
  tell(add(7, last));
  const later = JSON.stringify({ ...add(8, last), seq: 1_000_000, prevSeq: 999_999 });
  assert.throws(() => reader.take(later), BrokenStream);
  for (const text of ["", "null", "[]", "{}", '{"seq":1}', '{"seq":1.5,"ledger":1}'])
    assert.throws(() => new Reader().take(text), BrokenStream);
});

test("a ledger that begins before another has ended breaks the connection", () => {
  assert.throws(() => reading().tell(add(7), add(8, last)), BrokenStream);
});

test("what a later version says beside the two channels is left aside", () => {
  const { tell } = reading();
  const [, batch] = tell({ channel: "weather", ledger: 7, rain: true }, add(7, last));
  assert.equal(batch.changes.length, 1);
});
