// Signs in as a wallet does that uses npm's @stellar/typescript-wallet-sdk; prints the token.
//
//     node wallet-sdk.mjs HOME_DOMAIN SEED

import sdk from "@stellar/typescript-wallet-sdk";

const [homeDomain, seed] = process.argv.slice(2);
const anchor = sdk.Wallet.TestNet().anchor({ homeDomain, allowHttp: true });
const auth = await anchor.sep10();
const { token, account } = await auth.authenticate({
  accountKp: sdk.SigningKeypair.fromSecret(seed),
});
const { currencies } = await anchor.sep1();
console.log(JSON.stringify({ token, account, currencies }));
