import Reveal from './reveal.js/dist/reveal.mjs';

await new Reveal().initialize({ transition: 'none' });
