// @ts-check
/**
 * Requests to the API.
 */

/** What the API says when it refuses for good: its sentence and its status. */
export class Refused extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Nobody answers, or not with an answer: asking again later can help. */
export class NotReached extends Error {}

/** Where the API is mounted: this file lies four folders below, at `assets/<version>/js/shared/`. */
export const ROOT = new URL("../../../../", import.meta.url);

/**
 * An address of the order book's API, wherever it is mounted.
 *
 * @param {string} path
 * @param {Record<string, string>} [query]
 */
export function api(path, query = {}) {
  const url = new URL(`api/v1/${path}`, ROOT);
  url.search = new URLSearchParams(query).toString();
  return url;
}

/**
 * Ask for JSON.
 *
 * @param {URL} url
 * @param {RequestInit} [request] as `fetch` takes it, with headers as an object
 * @returns {Promise<{ body: any, date: string | null }>} and the server's time of day, if it was
 *   asked: an answer from the cache tells an old one
 * @throws {Refused | NotReached}
 */
export async function ask(url, { headers, ...request } = {}) {
  let answer, body;
  try {
    answer = await fetch(url, { ...request, headers: { accept: "application/json", ...headers } });
    body = await answer.json();
  } catch (error) {
    // The network is away, or a proxy speaks for the API in a language of its own.
    throw new NotReached("the service does not answer", { cause: error });
  }
  if (answer.status >= 500 || answer.status === 429) throw new NotReached(body.message);
  if (!answer.ok) throw new Refused(body.message, answer.status);
  return { body, date: answer.headers.get("Date") };
}

/**
 * A question that is asked again whenever what it is about may have changed: one at a time, and not
 * more often than every `apart` milliseconds.
 */
export class Refresher {
  #refresh;
  #apart;
  #running = false;
  #again = false;

  /**
   * @param {() => Promise<void>} refresh deals with its own errors
   * @param {number} apart
   */
  constructor(refresh, apart) {
    this.#refresh = refresh;
    this.#apart = apart;
  }

  /** Something may have changed. */
  async wake() {
    this.#again = true;
    if (this.#running) return;
    this.#running = true;
    while (this.#again) {
      this.#again = false;
      await this.#refresh();
      await new Promise((resolve) => setTimeout(resolve, this.#apart));
    }
    this.#running = false;
  }
}
