/** A default policy of Trusted Types for scripts of this site: the page's policy forbids strings as their addresses. */
interface PolicyMaker {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): unknown;
}

export function trustOwnScripts(): void {
  const { trustedTypes } = globalThis as { trustedTypes?: PolicyMaker };
  try {
    trustedTypes?.createPolicy('default', {
      createScriptURL(url) {
        const { origin } = new URL(url, location.href);
        if (origin !== location.origin) throw new TypeError(`${url}: a script of another site.`);
        return url;
      },
    });
  } catch {
    // Ignores the error on a host page that has a default policy of its own.
  }
}
