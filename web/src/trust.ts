/**
 * Under the page's policy no plain text may become the address of a script. The workers' are ours:
 * what lies on this site is let through, and nothing else.
 */
interface Trusting {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): unknown;
}

export function trustOwnScripts(): void {
  const { trustedTypes } = globalThis as { trustedTypes?: Trusting };
  try {
    trustedTypes?.createPolicy('default', {
      createScriptURL(url) {
        const { origin } = new URL(url, location.href);
        if (origin !== location.origin) throw new TypeError(`${url}: a script of another site.`);
        return url;
      },
    });
  } catch {
    // There is one already: it decides.
  }
}
