import { ponder } from "ponder:registry";
import { transfer } from "ponder:schema";

ponder.on("Token:Transfer", async ({ event, context }) => {
  await context.db.insert(transfer).values({
    blockNumber: Number(event.block.number),
    logIndex: event.log.logIndex,
    blockTime: event.block.timestamp,
    transactionHash: event.transaction.hash,
    token: event.log.address,
    sender: event.args.from,
    recipient: event.args.to,
    amount: event.args.value,
  });
});
