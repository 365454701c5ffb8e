// Signs in as a page does that uses npm's @stellar/stellar-sdk alone; prints the token.
//
//     node stellar-sdk.mjs HOME_DOMAIN SEED

import { Keypair, StellarToml, TransactionBuilder, WebAuth } from "@stellar/stellar-sdk";

const [home, seed] = process.argv.slice(2);
const wallet = Keypair.fromSecret(seed);
const toml = await StellarToml.Resolver.resolve(home, { allowHttp: true });
const endpoint = new URL(toml.WEB_AUTH_ENDPOINT);

const asking = new URL(endpoint);
asking.searchParams.set("account", wallet.publicKey());
asking.searchParams.set("home_domain", home);
const challenge = await answer(fetch(asking));
if (challenge.network_passphrase !== toml.NETWORK_PASSPHRASE) {
  throw new Error(`the challenge is for ${challenge.network_passphrase}`);
}

const told = [toml.SIGNING_KEY, toml.NETWORK_PASSPHRASE];
const { clientAccountID } = WebAuth.readChallengeTx(
  challenge.transaction,
  ...told,
  home,
  endpoint.host,
);
if (clientAccountID !== wallet.publicKey()) throw new Error(`the challenge is ${clientAccountID}'s`);

const signed = TransactionBuilder.fromXDR(challenge.transaction, toml.NETWORK_PASSPHRASE);
signed.sign(wallet);
// What this library's verifier says of the very envelope that the server gets.
const found = WebAuth.verifyChallengeTxSigners(
  signed.toXDR(),
  ...told,
  [wallet.publicKey()],
  home,
  endpoint.host,
);
if (found.join() !== wallet.publicKey()) throw new Error(`signed by ${found}`);

const body = new URLSearchParams({ transaction: signed.toXDR() });
const { token } = await answer(fetch(endpoint, { method: "POST", body }));
console.log(JSON.stringify({ token }));

async function answer(response) {
  const arrived = await response;
  if (!arrived.ok) throw new Error(`${arrived.status} ${await arrived.text()}`);
  return arrived.json();
}
