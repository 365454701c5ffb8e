// Signs in and asks for a quote with the types that openapi-typescript generates; prints the answers.
//
//     node client.js HOME_DOMAIN SEED

import { Keypair, TransactionBuilder } from "@stellar/stellar-sdk";

import type { components, operations } from "./isthmus.js";

declare const process: { argv: string[] };

type Challenge =
  operations["getChallenge"]["responses"][200]["content"]["application/json"];
type SignIn = NonNullable<operations["signIn"]["requestBody"]>["content"]["application/json"];
type Token = operations["signIn"]["responses"][200]["content"]["application/json"];
type Schemas = components["schemas"];

const [home, seed] = process.argv.slice(2) as [string, string];
const wallet = Keypair.fromSecret(seed);

const challenge: Challenge = await json(fetch(url("/auth", { account: wallet.publicKey() })));
const signed = TransactionBuilder.fromXDR(challenge.transaction, challenge.network_passphrase);
signed.sign(wallet);
const signIn: SignIn = { transaction: signed.toXDR() };
const { token }: Token = await json(post("/auth", signIn));

// Members that may be left out are left out: these lines have to compile.
const quote: Schemas["NewQuote"] = {
  route: "usdc-send",
  amount_in: "0",
  source_chain: "stellar:testnet",
  source_address: wallet.publicKey(),
  dest_address: wallet.publicKey(),
};
const submission: Schemas["NewSubmission"] = { kind: "stellar_tx", signed_xdr: "AAAA" };
const refused = await post("/v1/quotes", quote, token);
const error: Schemas["Error"] = await refused.json();
console.log(JSON.stringify({ token, status: refused.status, code: error.code, submission }));

function url(path: string, query: Record<string, string> = {}): URL {
  const made = new URL(path, `http://${home}`);
  for (const [name, value] of Object.entries(query)) made.searchParams.set(name, value);
  return made;
}

function post(path: string, body: object, token?: string): Promise<Response> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
  return fetch(url(path), { method: "POST", headers, body: JSON.stringify(body) });
}

async function json<T>(response: Promise<Response>): Promise<T> {
  const arrived = await response;
  if (!arrived.ok) throw new Error(`${arrived.status} ${await arrived.text()}`);
  return (await arrived.json()) as T;
}
