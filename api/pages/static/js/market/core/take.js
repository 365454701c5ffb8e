// @ts-check
/**
 * How to take an offer: the call of the Escrow contract, and programs that make it.
 */

import { parseUnits } from "../../shared/decimal.js";

/** @typedef {import("./book.js").Offer} Offer */

/**
 * Where the order book's contract is.
 *
 * @typedef {object} Escrow
 * @property {string} network
 * @property {string} passphrase
 * @property {string} contract
 */

/**
 * An argument of `open`.
 *
 * @typedef {object} Argument
 * @property {string} name
 * @property {string} type of the contract
 * @property {string} value for people
 * @property {string} python
 * @property {string} javascript
 */

/** A Soroban symbol. Nothing else is put into a program that a reader runs. */
const SYMBOL = /^[A-Za-z0-9_]{1,32}$/;
const ADDRESS = /^[GC][A-Z2-7]{55}$/;
const UNIT = 10_000_000n;
/** @type {Argument} */
const TAKER = {
  name: "taker",
  type: "Address",
  value: "your account",
  python: "scval.to_address(taker.public_key)",
  javascript: "new Address(taker.publicKey()).toScVal()",
};

/**
 * Arguments of `open`, in order.
 *
 * @param {Offer} offer
 * @param {string} rail one of the offer's
 * @param {bigint} amount USDC, 7 decimals
 * @returns {Argument[]}
 * @throws {RangeError} on an offer that no contract can have
 */
export function openArguments({ entry }, rail, amount) {
  const { provider, direction, currency } = entry;
  if (![rail, currency, direction].every((text) => SYMBOL.test(text)) || !ADDRESS.test(provider))
    throw new RangeError("the offer has a name that is no symbol of a contract");
  const payee =
    direction === "onramp"
      ? {
          value: "none: you pay the provider",
          python: "scval.to_void()",
          javascript: "xdr.ScVal.scvVoid()",
        }
      : {
          value: "SHA-256 of where you take the fiat",
          python: 'scval.to_bytes(sha256(os.environ["PAYEE"].encode()).digest())',
          javascript: "xdr.ScVal.scvBytes(hash(Buffer.from(process.env.PAYEE)))",
        };
  return [
    TAKER,
    {
      name: "provider",
      type: "Address",
      value: provider,
      python: `scval.to_address("${provider}")`,
      javascript: `new Address("${provider}").toScVal()`,
    },
    symbol("direction", direction),
    symbol("rail", rail),
    symbol("currency", currency),
    {
      name: "amount",
      type: "i128",
      value: String(amount),
      python: `scval.to_int128(${amount})`,
      javascript: `nativeToScVal(${amount}n, { type: "i128" })`,
    },
    { name: "payee_hash", type: "Option<BytesN<32>>", ...payee },
    {
      name: "prune",
      type: "Vec<BytesN<32>>",
      value: "empty: expired orders of the provider to clear first",
      python: "scval.to_vec([])",
      javascript: "xdr.ScVal.scvVec([])",
    },
  ];
}

/**
 * @param {string} name
 * @param {string} value
 * @returns {Argument}
 */
function symbol(name, value) {
  return {
    name,
    type: "Symbol",
    value,
    python: `scval.to_symbol("${value}")`,
    javascript: `xdr.ScVal.scvSymbol("${value}")`,
  };
}

/**
 * Arguments of `expire`, which anyone may call for an order whose time is over: it returns to the
 * taker what the order locked.
 *
 * @returns {Argument[]}
 */
export function expireArguments() {
  return [
    { ...TAKER, name: "caller" },
    {
      name: "order_id",
      type: "BytesN<32>",
      value: "id of the order",
      python: 'scval.to_bytes(bytes.fromhex(os.environ["ORDER"]))',
      javascript: 'xdr.ScVal.scvBytes(Buffer.from(process.env.ORDER, "hex"))',
    },
  ];
}

/** What the programs read, beside RPC_URL and STELLAR_KEY. */
const READS = {
  PAYEE: "where you take the fiat, such as your handle on the rail",
  ORDER: "id of the order",
};

/**
 * Lines of comments: what to install and to set.
 *
 * @param {string} mark
 * @param {string} install
 * @param {string} network
 * @param {readonly string[]} code of the arguments
 */
function heading(mark, install, network, code) {
  const read = Object.entries(READS).filter(([name]) => code.some((each) => each.includes(name)));
  return [
    install,
    `RPC_URL: a Stellar RPC node of ${network}. STELLAR_KEY: of the account that takes the offer.`,
    ...read.map(([name, meaning]) => `${name}: ${meaning}.`),
  ]
    .map((line) => `${mark} ${line}\n`)
    .join("");
}

/**
 * A program that opens the order and prints its id.
 *
 * @param {Escrow} escrow
 * @param {readonly Argument[]} args
 */
export function pythonProgram(escrow, args) {
  const parse = "    parse_result_xdr_fn=lambda result: scval.from_bytes(result).hex(),\n";
  return `${pythonCall(escrow, "open", args, parse)}print(call.sign_and_submit())\n`;
}

/**
 * A program that ends the order `ORDER` after its expiry.
 *
 * @param {Escrow} escrow
 */
export function pythonExpiry(escrow) {
  const call = pythonCall(escrow, "expire", expireArguments(), "");
  return `${call}call.sign_and_submit()\nprint("Your USDC is returned.")\n`;
}

/**
 * @param {Escrow} escrow
 * @param {string} method
 * @param {readonly Argument[]} args
 * @param {string} parse
 */
function pythonCall({ network, passphrase, contract }, method, args, parse) {
  const code = args.map(({ python }) => python);
  const hashes = code.some((each) => each.includes("sha256")) ? "from hashlib import sha256\n" : "";
  return `${heading("#", "pip install stellar-sdk", network, code)}import os
${hashes}
from stellar_sdk import Keypair, scval
from stellar_sdk.contract import ContractClient

taker = Keypair.from_secret(os.environ["STELLAR_KEY"])
escrow = ContractClient(
    "${contract}",
    os.environ["RPC_URL"],
    ${JSON.stringify(passphrase)},
)
call = escrow.invoke(
    "${method}",
    [
${args.map(({ name, python }) => `        ${python},  # ${name}`).join("\n")}
    ],
    source=taker.public_key,
    signer=taker,
${parse})
`;
}

/**
 * The same as `pythonProgram` for Node.js, as an ES module.
 *
 * @param {Escrow} escrow
 * @param {readonly Argument[]} args
 */
export function javascriptProgram(escrow, args) {
  const parse = '  parseResultXdr: (result) => Buffer.from(result.bytes()).toString("hex"),\n';
  const call = javascriptCall(escrow, "open", args, parse);
  return `${call}console.log((await call.signAndSend()).result);\n`;
}

/**
 * The same as `pythonExpiry` for Node.js, as an ES module.
 *
 * @param {Escrow} escrow
 */
export function javascriptExpiry(escrow) {
  const call = javascriptCall(escrow, "expire", expireArguments(), "");
  return `${call}await call.signAndSend();\nconsole.log("Your USDC is returned.");\n`;
}

/**
 * @param {Escrow} escrow
 * @param {string} method
 * @param {readonly Argument[]} args
 * @param {string} parse
 */
function javascriptCall({ network, passphrase, contract }, method, args, parse) {
  const code = args.map(({ javascript }) => javascript);
  const used = ["hash", "nativeToScVal"].filter((name) =>
    code.some((each) => each.includes(`${name}(`)),
  );
  const names = ["Address", "Keypair", "contract", ...used, "xdr"];
  return `${heading("//", "npm install @stellar/stellar-sdk", network, code)}import { ${names.join(", ")} } from "@stellar/stellar-sdk";

const { RPC_URL, STELLAR_KEY } = process.env;
const taker = Keypair.fromSecret(STELLAR_KEY);
const networkPassphrase = ${JSON.stringify(passphrase)};
const call = await contract.AssembledTransaction.build({
  contractId: "${contract}",
  method: "${method}",
  args: [
${args.map(({ name, javascript }) => `    ${javascript}, // ${name}`).join("\n")}
  ],
  rpcUrl: RPC_URL,
  allowHttp: RPC_URL.startsWith("http:"),
  networkPassphrase,
  publicKey: taker.publicKey(),
  ...contract.basicNodeSigner(taker, networkPassphrase),
${parse}});
`;
}

/**
 * The fiat of an order, as the contract rounds it: up where the provider receives it.
 *
 * @param {Offer} offer
 * @param {bigint} amount
 */
export function fiatFor({ entry, rate }, amount) {
  const exact = amount * rate;
  return exact / UNIT + (entry.direction === "onramp" && exact % UNIT > 0n ? 1n : 0n);
}

/**
 * USDC of an order in fiat: the most that costs no more than it or, where the taker is paid, the
 * least that brings no less.
 *
 * @param {Offer} offer
 * @param {bigint} fiat 7 decimals
 */
export function usdcFor({ entry, rate }, fiat) {
  if (rate === 0n) return 0n;
  const exact = fiat * UNIT;
  return exact / rate + (entry.direction === "offramp" && exact % rate > 0n ? 1n : 0n);
}

/**
 * USDC of a whole order after the contract's fee, which is rounded down.
 *
 * @param {Offer} offer
 * @param {bigint} amount
 */
export function netOf({ entry }, amount) {
  return amount - (amount * BigInt(entry.feeRateBps)) / 10_000n;
}

/**
 * The amount that is typed or asked for, if the offer takes an order of it; null otherwise.
 *
 * @param {Offer} offer
 * @param {string} typed
 */
export function takenAmount({ min, max }, typed) {
  try {
    const amount = parseUnits(typed.trim());
    return min <= amount && amount <= max ? amount : null;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
