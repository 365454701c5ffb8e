// @ts-check
/**
 * A wallet for the demo: a seed that the reader types, and signatures by the browser's own Ed25519.
 *
 * Shown on the devnet alone, where keys are worth nothing. Never type a real seed into a page.
 */

import { WalletError } from "./stellar.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/** First bytes of the text forms (SEP-23): `G…` and `S…`. */
const ACCOUNT = 6 << 3;
const SEED = 18 << 3;
/** PKCS #8 of an Ed25519 key before its 32 bytes (RFC 8410). */
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/** `ENVELOPE_TYPE_TX`, the type of every envelope that the API shows. */
const ENVELOPE_TYPE_TX = 2;
/** Hint, length and bytes of one signature. */
const SIGNATURE_BYTES = 4 + 4 + 64;

/**
 * @param {string} seed `S…`
 * @returns {Promise<import("./stellar.js").StellarWallet>}
 * @throws {WalletError} for what is no seed
 */
export async function openSeed(seed) {
  const raw = decodeKey(seed.trim());
  const form = Uint8Array.from([...PKCS8, ...raw]);
  const key = await crypto.subtle.importKey("pkcs8", form, "Ed25519", true, ["sign"]);
  const { x = "" } = await crypto.subtle.exportKey("jwk", key);
  const publicKey = fromBase64(x.replaceAll("-", "+").replaceAll("_", "/"));
  const account = encodeAccount(publicKey);
  return {
    name: "this seed",
    connect: async () => account,
    sign: async (xdr, passphrase) => {
      const envelope = fromBase64(xdr);
      const { transaction, signatures } = split(envelope);
      const network = await sha256(new TextEncoder().encode(passphrase));
      // The envelope's first four bytes are its type, as in the bytes that are hashed.
      const hash = await sha256(Uint8Array.from([...network, ...transaction]));
      const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", key, hash));
      const count = [0, 0, 0, signatures.length / SIGNATURE_BYTES + 1];
      const added = [...publicKey.slice(-4), 0, 0, 0, 64, ...signature];
      return toBase64([...transaction, ...count, ...signatures, ...added]);
    },
  };
}

/**
 * The transaction with the envelope's type, and its signatures of 64 bytes.
 *
 * XDR has no length of the transaction: the signatures, of which the API's envelopes have none or
 * one, are found from the end.
 *
 * @param {Uint8Array<ArrayBuffer>} envelope
 */
function split(envelope) {
  const view = new DataView(envelope.buffer);
  if (view.getUint32(0) !== ENVELOPE_TYPE_TX) throw new WalletError("That is no transaction.");
  for (const count of [0, 1]) {
    const start = envelope.length - count * SIGNATURE_BYTES;
    const isSigned = count === 0 || view.getUint32(start + 4) === 64;
    if (isSigned && view.getUint32(start - 4) === count)
      return { transaction: envelope.slice(0, start - 4), signatures: envelope.slice(start) };
  }
  throw new WalletError("The transaction has other signatures than the API's.");
}

/** @param {string} text */
function decodeKey(text) {
  const bytes = [];
  let bits = 0;
  let held = 0;
  for (const letter of text) {
    const value = ALPHABET.indexOf(letter);
    if (value < 0) throw new WalletError("A seed has the letters A to Z and the digits 2 to 7.");
    held = (held << 5) | value;
    bits += 5;
    if (bits >= 8) bytes.push((held >> (bits -= 8)) & 0xff);
  }
  const [first, ...rest] = bytes.slice(0, -2);
  if (bytes.length !== 35 || first !== SEED) throw new WalletError("A seed is S and 55 letters.");
  const sum = checksum([SEED, ...rest]);
  if (sum[0] !== bytes[33] || sum[1] !== bytes[34])
    throw new WalletError("The seed has a typing error: its checksum is wrong.");
  return rest;
}

/** @param {Uint8Array} publicKey 32 bytes */
function encodeAccount(publicKey) {
  const body = [ACCOUNT, ...publicKey];
  const bytes = [...body, ...checksum(body)];
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) text += ALPHABET[(held >> (bits -= 5)) & 31];
  }
  return text;
}

/**
 * CRC-16/XMODEM, its low byte first (SEP-23).
 *
 * @param {readonly number[]} bytes
 */
function checksum(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1)
      crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return [crc & 0xff, crc >> 8];
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** @param {readonly number[]} bytes */
function toBase64(bytes) {
  return btoa(bytes.map((byte) => String.fromCharCode(byte)).join(""));
}
