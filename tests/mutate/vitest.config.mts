// Runs the page's unit tests with the text of one module (MUTANT, a path from the top of the tree)
// replaced by that of MUTANT_TEXT.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import page from '../../web/vite.config.ts';

const mutant = resolve(import.meta.dirname, '../..', process.env.MUTANT!);

export default {
  ...(page as object),
  cacheDir: resolve(import.meta.dirname, '../../.build/mutate/vite'),
  // A test that times out because the machine is busy has noticed nothing.
  test: { ...(page as { test: object }).test, testTimeout: 60_000 },
  plugins: [
    ...(page as { plugins: object[] }).plugins,
    {
      name: 'mutant',
      enforce: 'pre',
      // Tests that read a file as text still get the original.
      load: (id: string) =>
        id.split('?')[0] === mutant && !/[?&]raw\b/.test(id)
          ? readFileSync(process.env.MUTANT_TEXT!, 'utf8')
          : undefined,
    },
  ],
};
