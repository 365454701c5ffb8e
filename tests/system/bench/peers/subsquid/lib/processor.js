// The processor that both programs run: blocks FIRST to LAST of NODE, or to the head.
const { EvmBatchProcessor } = require("@subsquid/evm-processor");

const { NODE, FIRST, LAST, FINALITY } = process.env;

const processor = new EvmBatchProcessor()
  .setRpcEndpoint({ url: NODE, capacity: 10, maxBatchCallSize: 100 })
  .setFinalityConfirmation(Number(FINALITY))
  .setBlockRange({ from: Number(FIRST), to: LAST ? Number(LAST) : undefined })
  .setFields({ log: { transactionHash: true } });

module.exports = { processor };
