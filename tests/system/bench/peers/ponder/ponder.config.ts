// Stores each transfer of TOKEN from block FIRST on; up to block LAST where it is set.
import { createConfig } from "ponder";
import { erc20Abi } from "viem";

const { NODE, NODE_WS, TOKEN, FIRST, LAST } = process.env;

export default createConfig({
  chains: {
    local: {
      id: 31337,
      // It asks each of its URLs at most 20 times a second to begin with, and there is no setting for
      // that: so the one node is listed often enough for 1,000.
      rpc: Array(50).fill(NODE),
      ws: NODE_WS,
      pollingInterval: 100,
      // As its documentation says for Anvil.
      disableCache: true,
      ethGetLogsBlockRange: 10_000,
    },
  },
  contracts: {
    Token: {
      chain: "local",
      abi: erc20Abi,
      address: TOKEN as `0x${string}`,
      startBlock: Number(FIRST),
      endBlock: LAST ? Number(LAST) : undefined,
    },
  },
});
