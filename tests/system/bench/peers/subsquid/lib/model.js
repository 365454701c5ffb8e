// What a squid's code generator makes of a schema with these entities.
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

class Account {
  constructor(values) {
    Object.assign(this, values);
  }
}

const accounts = new EntitySchema({
  name: "Account",
  target: Account,
  tableName: "account",
  columns: {
    id: { type: "varchar", primary: true },
    sent: { type: "numeric", transformer: amount },
    sends: { type: "numeric", transformer: amount },
  },
});

class OftSend {
  constructor(values) {
    Object.assign(this, values);
  }
}

const oftSends = new EntitySchema({
  name: "OftSend",
  target: OftSend,
  tableName: "oft_send",
  columns: {
    id: { type: "varchar", primary: true },
    blockNumber: { type: "int" },
    logIndex: { type: "int" },
    blockTime: { type: "timestamptz" },
    transactionHash: { type: "text" },
    guid: { type: "text" },
    destination: { type: "int" },
    amount: { type: "numeric", transformer: amount },
  },
  relations: {
    sender: { type: "many-to-one", target: "Account", joinColumn: { name: "sender_id" } },
  },
});

module.exports = { Account, OftSend, Transfer, accounts, oftSends, transfers };
