/**
 * The page's Content-Security-Policy: a <meta> in every page, for hosts that send no headers, and a file `_headers`,
 * which Netlify, Cloudflare Pages and others read. tests/browser/stage.mjs sends the headers of that file.
 */
import type { HtmlTagDescriptor, Plugin } from 'vite';

const POLICY = {
  'default-src': "'self'",
  'script-src': "'self' 'wasm-unsafe-eval'",
  // Templates set style attributes. Styles run no code, and the other directives bound what they can load.
  'style-src': "'self' 'unsafe-inline'",
  // Figures are saved through images that the page creates.
  'img-src': "'self' data: blob:",
  // Models come from a hub that the reader chooses.
  'connect-src': "'self' https:",
  'object-src': "'none'",
  'base-uri': "'self'",
  'form-action': "'none'",
  // Only these two policies turn text into markup or a script's address: Lit's templates, and trust.ts.
  'require-trusted-types-for': "'script'",
  'trusted-types': 'lit-html default',
};

/**
 * Browsers give shared memory only to isolated documents. Unlike the other headers for isolation, this one affects
 * neither frames (on other sites and here) nor the page's requests. In browsers that do not know it, sw/sw.ts isolates
 * the page.
 */
export const ISOLATION = { 'Document-Isolation-Policy': 'isolate-and-credentialless' };

const HEADERS = {
  ...ISOLATION,
  'Content-Security-Policy': Object.entries(POLICY)
    .map(([name, value]) => `${name} ${value}`)
    .join('; '),
  'Referrer-Policy': 'no-referrer',
};

/** Paths of files whose addresses contain a hash of their content, so that browsers may keep them forever. */
const IMMUTABLE_PATHS = ['/assets/*', '/engine/*', '/zoo/*', '/recordings/*'];

/** The policy as meta tags, for hosts that send no headers. */
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
      // Other sites may load the element, the engine and the models, since no response depends on cookies or users.
      const sharingHeaders = {
        'Access-Control-Allow-Origin': '*',
        'X-Content-Type-Options': 'nosniff',
      };
      const pageHeaders = { ...HEADERS, ...sharingHeaders };
      const formatRule = (path: string, headers: Readonly<Record<string, string>>) =>
        [path, ...Object.entries(headers).map(([name, value]) => `  ${name}: ${value}`)].join('\n');
      const source = [
        formatRule('/*', pageHeaders),
        ...IMMUTABLE_PATHS.map((path) =>
          formatRule(path, { 'Cache-Control': 'public, max-age=31536000, immutable' }),
        ),
      ].join('\n');
      this.emitFile({ type: 'asset', fileName: '_headers', source: `${source}\n` });
    },
  };
}
