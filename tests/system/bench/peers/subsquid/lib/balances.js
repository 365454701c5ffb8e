// Stores each send of OFT from block FIRST on, up to block LAST where it is set, and what each
// sender has sent.
const abi = require("@subsquid/evm-abi");
const codec = require("@subsquid/evm-codec");
const { TypeormDatabase } = require("@subsquid/typeorm-store");
const { In } = require("typeorm");
const { Account, OftSend } = require("./model");
const { processor } = require("./processor");

const { OFT } = process.env;

const sent = abi.event(
  "0x85496b760a4b7f8d66384b9df21b381f5d1b1e79f229a47aaf4c232edc2fe59a",
  "OFTSent(bytes32,uint32,address,uint256,uint256)",
  {
    guid: abi.indexed(codec.bytes32),
    destination: codec.uint32,
    sender: abi.indexed(codec.address),
    amountSent: codec.uint256,
    amountReceived: codec.uint256,
  },
);

processor.addLog({ address: [OFT], topic0: [sent.topic] });

processor.run(new TypeormDatabase(), async ({ blocks, store }) => {
  const found = [];
  for (const { header, logs } of blocks) {
    for (const log of logs) {
      if (log.address !== OFT || log.topics[0] !== sent.topic) continue;
      found.push({ header, log, event: sent.decode(log) });
    }
  }
  const senders = [...new Set(found.map(({ event }) => event.sender))];
  const accounts = new Map();
  for (const account of await store.findBy(Account, { id: In(senders) })) {
    accounts.set(account.id, account);
  }
  const sends = found.map(({ header, log, event }) => {
    let sender = accounts.get(event.sender);
    if (sender === undefined) {
      sender = new Account({ id: event.sender, sent: 0n, sends: 0n });
      accounts.set(sender.id, sender);
    }
    sender.sent += event.amountSent;
    sender.sends += 1n;
    return new OftSend({
      id: `${header.height}-${log.logIndex}`,
      blockNumber: header.height,
      logIndex: log.logIndex,
      blockTime: new Date(header.timestamp),
      transactionHash: log.transactionHash,
      guid: event.guid,
      destination: event.destination,
      sender,
      amount: event.amountSent,
    });
  });
  await store.upsert([...accounts.values()]);
  await store.insert(sends);
});
