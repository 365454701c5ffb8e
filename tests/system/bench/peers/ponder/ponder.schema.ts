import { onchainTable, primaryKey } from "ponder";

export const transfer = onchainTable(
  "transfer",
  (t) => ({
    blockNumber: t.integer().notNull(),
    logIndex: t.integer().notNull(),
    blockTime: t.bigint().notNull(),
    transactionHash: t.hex().notNull(),
    token: t.hex().notNull(),
    sender: t.hex().notNull(),
    recipient: t.hex().notNull(),
    amount: t.bigint().notNull(),
  }),
  (table) => ({ key: primaryKey({ columns: [table.blockNumber, table.logIndex] }) }),
);
