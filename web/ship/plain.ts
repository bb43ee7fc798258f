/**
 * What stands in the page until its program runs: a picture and what to do. Without JavaScript it is
 * shown at once, from a disk or a broken host after a moment; the program takes it away.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

const PICTURE = 'picture.png';
const SAID =
  'Sinkscope runs small language models in your browser and draws where their attention goes. This ' +
  'is a picture of it: the page itself needs JavaScript. If you opened it as a file, serve its ' +
  'folder instead, for example with <code>python3 -m http.server</code>, and open ' +
  '<code>http://localhost:8000</code>: a browser lets no file read the models beside it.';
const STYLE =
  '#plain{max-width:60rem;margin:1rem auto;padding:0 1rem;animation:plain-waits 3s step-end}' +
  '#plain img{max-width:100%;height:auto}' +
  // As far away as it is, its picture is not fetched either.
  '@keyframes plain-waits{from{position:absolute;left:-9999px;visibility:hidden}}';

export function plain(): Plugin {
  return {
    name: 'plain',
    transformIndexHtml: () => [
      { tag: 'style', children: STYLE, injectTo: 'head' },
      {
        tag: 'noscript',
        children: '<style>#plain{animation:none}</style>',
        injectTo: 'head',
      },
      {
        tag: 'div',
        attrs: { id: 'plain' },
        children:
          `<p>${SAID}</p><img src="./${PICTURE}" width="1280" height="740" loading="lazy" ` +
          'alt="Two attention maps side by side: in the softmax model nearly every word looks at the start mark, in its sigmoid twin none does so." />',
        injectTo: 'body-prepend',
      },
    ],
    generateBundle() {
      const source = readFileSync(join(import.meta.dirname, '..', PICTURE));
      this.emitFile({ type: 'asset', fileName: PICTURE, source });
    },
  };
}
