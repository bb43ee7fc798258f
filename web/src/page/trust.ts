/**
 * The page's policy (Trusted Types) forbids a plain string as the address of a script. The default policy
 * admits addresses of this site, which the workers need, and no others.
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
    // The host page has a default policy of its own, which applies.
  }
}
