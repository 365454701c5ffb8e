// @ts-check
/**
 * What the page asks of a Stellar wallet, and Freighter by its own package.
 *
 * `vendor/freighter-api` is a classic script: it posts messages to the extension's content script,
 * and is `freighterApi` of the window.
 */

/**
 * @typedef {object} StellarWallet
 * @property {string} name
 * @property {() => Promise<string>} connect the account that the reader picks, `G…`
 * @property {(xdr: string, passphrase: string, account: string) => Promise<string>} sign the
 *   envelope with that account's signature added
 */

/** The wallet said no, or cannot. */
export class WalletError extends Error {}

/** @typedef {{ error?: { message: string } }} Answer */

/**
 * @type {{ isConnected: () => Promise<Answer & { isConnected: boolean }>,
 *   requestAccess: () => Promise<Answer & { address: string }>,
 *   signTransaction: (xdr: string, options: { networkPassphrase: string, address: string }) =>
 *     Promise<Answer & { signedTxXdr: string, signerAddress: string }> }}
 */
const api = /** @type {any} */ (globalThis).freighterApi;

/** @type {StellarWallet} */
export const freighter = {
  name: "Freighter",

  async connect() {
    const { isConnected } = checked(await api.isConnected());
    if (!isConnected) throw new WalletError("Freighter is not installed in this browser.");
    return checked(await api.requestAccess()).address;
  },

  async sign(xdr, passphrase, account) {
    const asked = { networkPassphrase: passphrase, address: account };
    const { signedTxXdr, signerAddress } = checked(await api.signTransaction(xdr, asked));
    if (signerAddress !== account)
      throw new WalletError(`Freighter signed for ${signerAddress}, not for ${account}.`);
    return signedTxXdr;
  },
};

/**
 * @template {Answer} T
 * @param {T} answer
 */
function checked(answer) {
  if (answer.error) throw new WalletError(`Freighter: ${answer.error.message}`);
  return answer;
}
