// What a squid's code generator makes of a schema with one entity.
const { EntitySchema } = require("typeorm");

class Transfer {
  constructor(values) {
    Object.assign(this, values);
  }
}

const amount = { from: (text) => text && BigInt(text), to: (value) => value?.toString() };

const transfers = new EntitySchema({
  name: "Transfer",
  target: Transfer,
  tableName: "transfer",
  columns: {
    id: { type: "varchar", primary: true },
    blockNumber: { type: "int" },
    logIndex: { type: "int" },
    blockTime: { type: "timestamptz" },
    transactionHash: { type: "text" },
    token: { type: "text" },
    sender: { type: "text" },
    recipient: { type: "text" },
    amount: { type: "numeric", transformer: amount },
  },
});

module.exports = { Transfer, transfers };
