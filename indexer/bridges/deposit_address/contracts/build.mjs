// Compiles every Solidity source of each folder below into its artifacts/<Contract>.json. A folder
// is compiled by itself: what is deployed on real chains imports nothing of the devnet's or tests'.
//
// The output depends on the sources and the compiler's version alone: no metadata hash, sorted
// keys, one trailing newline. Each artifact carries the SHA-256 of the sources it was made from,
// so that a test without node can tell a stale one.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const project = fileURLToPath(new URL("../../../../", import.meta.url));
const FOLDERS = ["indexer/bridges/deposit_address/contracts", "devnet/contracts", "tests/contracts"];

const SETTINGS = {
  evmVersion: "paris",
  metadata: { appendCBOR: false, bytecodeHash: "none" },
  optimizer: { enabled: true, runs: 200 },
};

function readSources(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith(".sol")).sort();
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

function compile(sources) {
  const input = {
    language: "Solidity",
    sources: Object.fromEntries(
      Object.entries(sources).map(([name, content]) => [name, { content }]),
    ),
    settings: {
      ...SETTINGS,
      outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "metadata"] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  const problems = output.errors ?? [];
  if (problems.length > 0) {
    throw new Error(problems.map((problem) => problem.formattedMessage).join("\n"));
  }
  return output.contracts;
}

function sha256(text) {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

function artifact(contractName, contract, sources) {
  const used = Object.keys(JSON.parse(contract.metadata).sources);
  return {
    abi: contract.abi,
    bytecode: `0x${contract.evm.bytecode.object}`,
    compiler: { settings: SETTINGS, version: solc.version() },
    contractName,
    sources: Object.fromEntries(used.map((name) => [name, sha256(sources[name])])),
  };
}

function sortKeys(value) {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value).sort().map((key) => [key, sortKeys(value[key])]),
  );
}

function build(folder) {
  const sources = readSources(folder);
  const artifacts = join(folder, "artifacts");
  const compiled = compile(sources);
  rmSync(artifacts, { recursive: true, force: true });
  mkdirSync(artifacts, { recursive: true });
  for (const [name, contract] of Object.values(compiled).flatMap(Object.entries)) {
    // Interfaces and abstract contracts have no code of their own.
    if (contract.evm.bytecode.object === "") continue;
    const text = JSON.stringify(sortKeys(artifact(name, contract, sources)), null, 2);
    writeFileSync(join(artifacts, `${name}.json`), `${text}\n`);
  }
}

for (const folder of FOLDERS) build(join(project, folder));
