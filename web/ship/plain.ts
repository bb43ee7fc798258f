/**
 * The content of the page until its program runs: the picture of Start's preview, and the reason why there may be no
 * more. Without JavaScript it is visible at once, from a disk or a broken host after a moment; the program removes it.
 * A script without modules states the reason, where it can run.
 */
import type { Plugin } from 'vite';
import { cards, pictureOf, SIZE } from './cards.ts';
import { escaped, isLesson } from './lessons.ts';
import { picturesOf } from './markdown.ts';

/** The first one is Start's. */
const card = cards()[0]!;
const SCRIPT = 'plain.js';
const SAID =
  'Sinkscope runs small language models in your browser and draws where their attention goes. This ' +
  'picture of it stays only where the program cannot run.';
const WITHOUT = 'JavaScript is off in this browser: turn it on for this page.';
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
/** A script for old browsers without modules. */
const SHOWS_REASON = `(function () {
  var why = location.protocol === 'file:' ? 'file' : self.origin === 'null' ? 'sandbox' : 'host';
  var all = ['file', 'sandbox', 'host'];
  for (var i = 0; i < 3; i++) document.getElementById('plain-' + all[i]).hidden = all[i] !== why;
})();
`;
const STYLE =
  '#plain{max-width:60rem;margin:1rem auto;padding:0 1rem;animation:plain-waits 3s step-end}' +
  '#plain img{max-width:100%;height:auto}' +
  // Far off the screen, so that browsers do not fetch the picture either.
  '@keyframes plain-waits{from{position:absolute;left:-9999px;visibility:hidden}}';

export function plain(): Plugin {
  return {
    name: 'plain',
    // A lesson can be read without them.
    transformIndexHtml: (_, { path }) =>
      isLesson(path)
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
                `<p>${SAID}</p><noscript><p>${WITHOUT}</p></noscript>` +
                Object.entries(REASONS)
                  // Where that script cannot run either, the page is a local file or a frame.
                  .map(
                    ([name, text]) =>
                      `<p id="plain-${name}"${name === 'host' ? ' hidden' : ''}>${text}</p>`,
                  )
                  .join('') +
                `<script src="./${SCRIPT}"></script><img src="./${pictureOf(card)}" width="${SIZE.width}" height="${SIZE.height}" loading="lazy" ` +
                `alt="${escaped(card.figures.map((name) => picturesOf()[name]!.says).join(' '))}" />`,
              injectTo: 'body-prepend',
            },
          ],
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: SCRIPT, source: SHOWS_REASON });
    },
  };
}
