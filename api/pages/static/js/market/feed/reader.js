// @ts-check
/**
 * Messages of one connection, put together to ledgers.
 */

/** @typedef {import("../core/book.js").Change} Change */
/** @typedef {import("../core/orders.js").Order} Order */

/**
 * What one ledger, or the snapshot at the beginning, tells.
 *
 * @typedef {object} Batch
 * @property {boolean} isSnapshot the whole book: what was known before is to be forgotten
 * @property {number} ledger
 * @property {string | null} closedAt when the ledger closed, ISO 8601; null for one that others
 *   followed before it was told
 * @property {Change[]} changes
 * @property {Order[]} orders
 */

/** The connection cannot be trusted any more: a message is missing or makes no sense. */
export class BrokenStream extends Error {}

export class Reader {
  /** @type {Batch | null} the ledger that is being told */
  #batch = null;
  /** Whether what comes next is the whole book. A connection that resumes says so at once. */
  #isSnapshot = true;
  /** @type {number | null} */
  #seq = null;

  /**
   * Take a message in; give back its ledger if it was the last one of it.
   *
   * @param {string} text
   * @returns {Batch | null}
   * @throws {BrokenStream}
   */
  take(text) {
    const message = parse(text);
    if (this.#seq !== null && message.prevSeq !== this.#seq)
      throw new BrokenStream(`message ${message.seq} follows ${message.prevSeq}, not ${this.#seq}`);
    this.#seq = message.seq;
    if (message.channel === "stream") this.#isSnapshot = message.mode !== "resume";
    // An opening that is not all there is to tell belongs to no ledger.
    if (message.channel === "stream" && message.last !== true) return null;
    const batch = (this.#batch ??= this.#begin(message.ledger));
    if (message.ledger !== batch.ledger)
      throw new BrokenStream(`ledger ${message.ledger} begins before ${batch.ledger} has ended`);
    if (message.channel === "orderbook")
      batch.changes.push({ op: message.op, entry: message.entry });
    if (message.channel === "intent") batch.orders.push(message.intent);
    if (message.last !== true) return null;
    this.#batch = null;
    this.#isSnapshot = false;
    return { ...batch, closedAt: message.closedAt ?? null };
  }

  /**
   * @param {number} ledger
   * @returns {Batch}
   */
  #begin(ledger) {
    return { isSnapshot: this.#isSnapshot, ledger, closedAt: null, changes: [], orders: [] };
  }
}

/**
 * @param {string} text
 * @returns {any} a message whose `seq` and `ledger` are numbers
 */
function parse(text) {
  let message;
  try {
    message = JSON.parse(text);
  } catch (error) {
    throw new BrokenStream("a message is not JSON", { cause: error });
  }
  if (!Number.isSafeInteger(message?.seq) || !Number.isSafeInteger(message.ledger))
    throw new BrokenStream("a message has no seq or no ledger");
  return message;
}
