// @ts-check
/**
 * The owner's newest transfers.
 */

import { chainName } from "../../shared/chains.js";
import { byId, make } from "../../shared/dom.js";
import { timeElement } from "../../shared/parts.js";
import { coinOf, formatCoin } from "../core/amounts.js";
import { STAGES } from "../core/words.js";

/** @typedef {import("../client/api.js").Transfer} Transfer */

/**
 * @param {readonly Transfer[]} transfers the newest first
 * @param {(id: string) => string} addressOf the page of a transfer
 */
export function showList(transfers, addressOf) {
  byId("list-empty").hidden = transfers.length > 0;
  byId("list").replaceChildren(
    ...transfers.map((transfer) => {
      const { id, route, stage, amount_in, source_chain, dest_chain, started_at } = transfer;
      const coin = formatCoin(amount_in, source_chain, coinOf(route));
      const way = `${chainName(source_chain)} → ${chainName(dest_chain)}`;
      return make(
        "li",
        {},
        make("a", { href: addressOf(id), "data-transfer": id }, coin),
        make("span", {}, way),
        make("span", { class: "pill", "data-stage": stage }, STAGES[stage]?.name ?? stage),
        timeElement(started_at),
      );
    }),
  );
}
