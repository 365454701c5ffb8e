// @ts-check
/**
 * Names and explorers of the network's chains. The page brings them: `data-chains` of its body.
 */

/**
 * URL templates of the explorer's pages have `{tx}` or `{address}` in them.
 *
 * @typedef {{ name: string, explorer_tx: string | null, explorer_account: string | null,
 *   explorer_contract: string | null }} Chain
 */

/** @type {Record<string, Chain>} by CAIP-2 id */
const CHAINS = JSON.parse(document.body.dataset.chains ?? "{}");

/** Whether this is the network of a local demo, where keys are worth nothing. */
export const IS_DEMO = document.body.dataset.network === "devnet";

/** @param {string} chain CAIP-2 */
export function chainName(chain) {
  return CHAINS[chain]?.name ?? chain;
}

/**
 * Address of a page in the chain's explorer; null where the network names none.
 *
 * @param {string | null} chain CAIP-2
 * @param {string} id transaction hash, account or contract of Stellar, account of an EVM chain
 */
export function explorerPage(chain, id) {
  const template = CHAINS[chain ?? ""]?.[pageOf(id)] ?? null;
  return template && template.replace(/\{\w+\}/, () => encodeURIComponent(id));
}

/** @param {string} id */
function pageOf(id) {
  if (/^(0x)?[0-9a-f]{64}$/.test(id)) return "explorer_tx";
  return id.startsWith("C") ? "explorer_contract" : "explorer_account";
}
