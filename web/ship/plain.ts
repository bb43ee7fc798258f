/**
 * The content of the page until its program runs: the picture of Start's preview, and the likely reason if the program
 * does not run. Without JavaScript this content shows at once, otherwise after a moment; the program removes it. A
 * script that needs no modules picks the reason.
 */
import type { Plugin } from 'vite';
import { cards, pictureOf, SIZE } from './cards.ts';
import { escapeHtml, isCoursePage } from './lessons.ts';
import { readPictures } from './markdown.ts';

const card = cards()[0]!;
const SCRIPT = 'plain.js';
const INTRODUCTION =
  'Sinkscope runs small language models in your browser and draws where their attention goes. This ' +
  'picture of it stays only where the program cannot run.';
const NO_SCRIPT = 'JavaScript is off in this browser: turn it on for this page.';
const REASONS = {
  file:
    'If you opened the page as a file: a browser lets no file read the models beside it. Serve its folder ' +
    'instead, for example with <code>python3 -m http.server</code>, and open <code>http://localhost:8000</code>.',
  sandbox:
    'If the page is in a sandboxed frame: its host does not let other origins read its scripts. Add ' +
    '<code>allow-same-origin</code> to the frame’s sandbox, or let the host send ' +
    '<code>Access-Control-Allow-Origin</code>.',
  host: 'Its scripts could not be fetched, or this browser is older than they are. Try again.',
};
/** Shows the one of REASONS that applies. The script also runs in old browsers, which know no modules. */
const REASON_SCRIPT = `(function () {
  var why = location.protocol === 'file:' ? 'file' : self.origin === 'null' ? 'sandbox' : 'host';
  var all = ['file', 'sandbox', 'host'];
  for (var i = 0; i < 3; i++) document.getElementById('plain-' + all[i]).hidden = all[i] !== why;
})();
`;
const STYLE =
  '#plain{max-width:60rem;margin:1rem auto;padding:0 1rem;animation:plain-waits 3s step-end}' +
  '#plain img{max-width:100%;height:auto}' +
  // The content waits far off the screen, so that browsers do not fetch its picture.
  '@keyframes plain-waits{from{position:absolute;left:-9999px;visibility:hidden}}';

export function fallbackPage(): Plugin {
  return {
    name: 'plain',
    // Lessons need no such content: they can be read without the program.
    transformIndexHtml: (_, { path }) =>
      isCoursePage(path)
        ? []
        : [
            { tag: 'style', children: STYLE, injectTo: 'head' },
            {
              tag: 'noscript',
              children: '<style>#plain{animation:none}#plain>[id]{display:none}</style>',
              injectTo: 'head',
            },
            {
              tag: 'div',
              attrs: { id: 'plain' },
              children:
                `<p>${INTRODUCTION}</p><noscript><p>${NO_SCRIPT}</p></noscript>` +
                Object.entries(REASONS)
                  // If REASON_SCRIPT cannot run, the reason is not `host`: the page is a local file or in a frame.
                  .map(
                    ([name, text]) =>
                      `<p id="plain-${name}"${name === 'host' ? ' hidden' : ''}>${text}</p>`,
                  )
                  .join('') +
                `<script src="./${SCRIPT}"></script><img src="./${pictureOf(card)}" width="${SIZE.width}" height="${SIZE.height}" loading="lazy" ` +
                `alt="${escapeHtml(card.figures.map((name) => readPictures()[name]!.says).join(' '))}" />`,
              injectTo: 'body-prepend',
            },
          ],
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: SCRIPT, source: REASON_SCRIPT });
    },
  };
}
