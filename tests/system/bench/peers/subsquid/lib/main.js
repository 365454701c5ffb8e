// Stores each transfer of TOKEN from block FIRST on; up to block LAST where it is set.
const abi = require("@subsquid/evm-abi");
const codec = require("@subsquid/evm-codec");
const { TypeormDatabase } = require("@subsquid/typeorm-store");
const { Transfer } = require("./model");
const { processor } = require("./processor");

const { TOKEN } = process.env;

const transfer = abi.event(
  "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
  "Transfer(address,address,uint256)",
  { from: abi.indexed(codec.address), to: abi.indexed(codec.address), value: codec.uint256 },
);

processor.addLog({ address: [TOKEN], topic0: [transfer.topic] });

processor.run(new TypeormDatabase(), async ({ blocks, store }) => {
  const found = [];
  for (const { header, logs } of blocks) {
    for (const log of logs) {
      if (log.address !== TOKEN || log.topics[0] !== transfer.topic) continue;
      const { from, to, value } = transfer.decode(log);
      found.push(
        new Transfer({
          id: `${header.height}-${log.logIndex}`,
          blockNumber: header.height,
          logIndex: log.logIndex,
          blockTime: new Date(header.timestamp),
          transactionHash: log.transactionHash,
          token: log.address,
          sender: from,
          recipient: to,
          amount: value,
        }),
      );
    }
  }
  await store.insert(found);
});
