// @ts-check
/**
 * Links between places of one document.
 */

/**
 * Follow links without loading a document. A link that is opened in a new tab is left alone.
 *
 * @param {string} selector of the links
 * @param {(link: HTMLAnchorElement) => void} follow
 */
export function followInside(selector, follow) {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest(selector) : null;
    if (!(link instanceof HTMLAnchorElement) || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    follow(link);
  });
}
