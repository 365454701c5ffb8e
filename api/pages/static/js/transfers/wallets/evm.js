// @ts-check
/**
 * EVM wallets in the browser: discovered by EIP-6963, asked by EIP-1193.
 */

import { WalletError } from "./stellar.js";

/** @typedef {import("../client/api.js").EvmCall} EvmCall */
/** @typedef {{ request: (asked: { method: string, params?: unknown[] }) => Promise<any> }} Provider */
/** @typedef {{ id: string, name: string, provider: Provider }} EvmWallet */

const RECEIPT_EVERY = 1_000;
/** EIP-1193's code for a reader who declined. */
const DECLINED = 4001;

/** A transaction is in a block, and has moved nothing. */
export class FailedTransaction extends WalletError {}

/**
 * Call back with all wallets that have announced themselves, whenever one more has.
 *
 * Their icons are not shown: this page loads no image but its own.
 *
 * @param {(wallets: readonly EvmWallet[]) => void} onWallets
 */
export function discoverWallets(onWallets) {
  /** @type {Map<string, EvmWallet>} */
  const found = new Map();
  addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider } = /** @type {CustomEvent} */ (event).detail;
    found.set(String(info.uuid), { id: String(info.uuid), name: String(info.name), provider });
    onWallets([...found.values()]);
  });
  dispatchEvent(new Event("eip6963:requestProvider"));
}

/**
 * The account that the reader lets this page see, in lower case.
 *
 * @param {EvmWallet} wallet
 * @returns {Promise<string>}
 */
export async function connectEvm(wallet) {
  const [account] = await ask(wallet, "eth_requestAccounts");
  if (typeof account !== "string") throw new WalletError(`${wallet.name} shows no account.`);
  return account.toLowerCase();
}

/**
 * Send the calls of an action, each once the one before it is in a block.
 *
 * @param {EvmWallet} wallet
 * @param {{ chainId: number, calls: readonly EvmCall[] }} action
 * @param {string} payer the account that the calls are for
 * @param {(step: string) => void} onStep what is being waited for
 * @param {(hash: string) => void} onPaid the last call is sent, which moves the money: it must not
 *   be sent again, whatever happens from here on
 * @returns {Promise<string>} its hash, once it is in a block
 * @throws {WalletError} when the reader declines; `FailedTransaction` when one has failed
 */
export async function sendCalls(wallet, { chainId, calls }, payer, onStep, onPaid) {
  const account = await connectEvm(wallet);
  if (account !== payer.toLowerCase())
    throw new WalletError(`This transfer is paid by ${payer}: choose it in ${wallet.name}.`);
  await switchChain(wallet, chainId);
  let hash = "";
  for (const [index, { to, data, value }] of calls.entries()) {
    const number = `Transaction ${index + 1} of ${calls.length}`;
    onStep(`${number}: confirm it in ${wallet.name}.`);
    const sent = { from: payer, to, data, value: `0x${BigInt(value).toString(16)}` };
    hash = await ask(wallet, "eth_sendTransaction", sent);
    if (index === calls.length - 1) onPaid(hash);
    onStep(`${number} is sent. Waiting for its block.`);
    await included(wallet, hash);
  }
  return hash;
}

/**
 * @param {EvmWallet} wallet
 * @param {number} chainId
 */
async function switchChain(wallet, chainId) {
  if (Number(await ask(wallet, "eth_chainId")) === chainId) return;
  await ask(wallet, "wallet_switchEthereumChain", { chainId: `0x${chainId.toString(16)}` });
}

/**
 * @param {EvmWallet} wallet
 * @param {string} hash
 */
async function included(wallet, hash) {
  for (;;) {
    const receipt = await ask(wallet, "eth_getTransactionReceipt", hash);
    if (receipt?.status === "0x1") return;
    if (receipt) throw new FailedTransaction(`Transaction ${hash} failed. Nothing was moved.`);
    await new Promise((resolve) => setTimeout(resolve, RECEIPT_EVERY));
  }
}

/**
 * @param {EvmWallet} wallet
 * @param {string} method
 * @param {...unknown} params
 */
async function ask({ name, provider }, method, ...params) {
  try {
    return await provider.request({ method, params });
  } catch (error) {
    // EIP-1193: an object with code and message, which need not be an Error.
    const { code, message } = /** @type {{ code?: number, message?: string }} */ (error);
    const said = code === DECLINED ? "you declined." : (message ?? "it failed.");
    throw new WalletError(`${name}: ${said}`, { cause: error });
  }
}
