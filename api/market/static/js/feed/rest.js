// @ts-check
/**
 * What the page asks for besides the stream.
 */

/** What the API says when it refuses for good, in a sentence. */
export class Refused extends Error {}

/** Nobody answers, or not with an answer: asking again later can help. */
export class NotReached extends Error {}

/**
 * An address of the API, wherever it is mounted: the page lies at its root.
 *
 * @param {string} path
 * @param {Record<string, string>} [query]
 */
export function api(path, query = {}) {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  url.search = new URLSearchParams(query).toString();
  return url;
}

/**
 * Ask for JSON.
 *
 * @template T
 * @param {URL} url
 * @returns {Promise<{ body: T, date: string | null }>} and the server's time of day, if it was
 *   asked: an answer from the cache tells an old one
 * @throws {Refused | NotReached}
 */
export async function ask(url) {
  let answer, body;
  try {
    answer = await fetch(url, { headers: { accept: "application/json" } });
    body = await answer.json();
  } catch (error) {
    // The network is away, or a proxy speaks for the API in a language of its own.
    throw new NotReached(`no answer from ${url.pathname}`, { cause: error });
  }
  if (answer.status >= 500 || answer.status === 429) throw new NotReached(body.message);
  if (!answer.ok) throw new Refused(body.message);
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
