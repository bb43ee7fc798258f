/**
 * What the page may load and whom it may ask, written once: as <meta> into both pages, for hosts
 * that send no headers, and as `_headers`, which Netlify, Cloudflare Pages and others read and
 * tests/browser/stage.mjs sends.
 */
import type { HtmlTagDescriptor, Plugin } from 'vite';

const POLICY = {
  'default-src': "'self'",
  'script-src': "'self' 'wasm-unsafe-eval'",
  // Observable Plot puts a <style> into each figure. Styles run nothing, and what they could ask
  // for is bounded by the lines below.
  'style-src': "'self' 'unsafe-inline'",
  // Figures are saved through pictures made here.
  'img-src': "'self' data: blob:",
  // Models come from the hub that the reader names.
  'connect-src': "'self' https:",
  'object-src': "'none'",
  'base-uri': "'self'",
  'form-action': "'none'",
  // No text becomes markup or a script's address but by these two: Lit's templates, and trust.ts.
  'require-trusted-types-for': "'script'",
  'trusted-types': 'lit-html default',
};

/**
 * Memory that threads can share is given to a document that is set apart from other sites; of the ways to
 * ask for it this one leaves frames, in other people's pages and in ours, and what is fetched as they are.
 * What browsers do not know it for, sw/sw.ts does.
 */
export const APART = { 'Document-Isolation-Policy': 'isolate-and-credentialless' };

const HEADERS = {
  ...APART,
  'Content-Security-Policy': Object.entries(POLICY)
    .map(([name, value]) => `${name} ${value}`)
    .join('; '),
  'Referrer-Policy': 'no-referrer',
};

/** What bears a hash of its content in its address never changes. */
const FOR_EVER = ['/assets/*', '/engine/*', '/zoo/*', '/recordings/*'];

/** For hosts that send no headers. */
export const POLICY_TAGS: readonly Readonly<Record<string, string>>[] = [
  { 'http-equiv': 'Content-Security-Policy', content: HEADERS['Content-Security-Policy'] },
  { name: 'referrer', content: HEADERS['Referrer-Policy'] },
];

export function policy(): Plugin {
  return {
    name: 'policy',
    apply: 'build',
    transformIndexHtml: () =>
      POLICY_TAGS.map((attrs): HtmlTagDescriptor => ({
        tag: 'meta',
        attrs,
        injectTo: 'head-prepend',
      })),
    generateBundle() {
      // Other sites may load the element, its engine and the models: no response depends on cookies or users.
      const open = { 'Access-Control-Allow-Origin': '*', 'X-Content-Type-Options': 'nosniff' };
      const everywhere = { ...HEADERS, ...open };
      const lines = (path: string, headers: Readonly<Record<string, string>>) =>
        [path, ...Object.entries(headers).map(([name, value]) => `  ${name}: ${value}`)].join('\n');
      const source = [
        lines('/*', everywhere),
        ...FOR_EVER.map((path) =>
          lines(path, { 'Cache-Control': 'public, max-age=31536000, immutable' }),
        ),
      ].join('\n');
      this.emitFile({ type: 'asset', fileName: '_headers', source: `${source}\n` });
    },
  };
}
