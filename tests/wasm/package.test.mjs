// Tests the output of `npm pack`, installed into an empty Node.js project and used as a stranger would.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { installInto, runIn } from '../installed.mjs';
import { files, root, softmax, withEngine } from './helper.mjs';

const model = fileURLToPath(softmax);
const MAIN_PROGRAM = `
import { pathToFileURL } from 'node:url';
import { createEngine } from 'sinkscope';
const at = (name) => new URL(name, pathToFileURL(process.argv[2] + '/'));
const engine = await createEngine();
const model = await engine.open({ config: at('config.json'), weights: at('model.safetensors') });
const run = await model.run([0, 17, 392]);
console.log(JSON.stringify([...(await run.metric('alpha')).data]));
await engine.close();
`;
const [, PROGRAM] = /## Ten lines[^]*?```js\n([^]*?)```/.exec(
  readFileSync(new URL('wasm/README.md', root), 'utf8'),
);

test('the packed package runs and answers in an empty project', { timeout: 600_000 }, async () => {
  const folder = await installInto('installed-node', {
    'package.json': '{ "type": "module", "private": true }',
    'main.js': MAIN_PROGRAM,
    'sink.mjs': PROGRAM,
    'text.txt': 'Once upon a time there was a king who had lost his name. '.repeat(20),
  });
  const pathInPackage = (path) => join(folder, 'node_modules/sinkscope', path);
  for (const path of [
    'LICENSE',
    'NOTICES.md',
    'README.md',
    'sinkscope.describe.json',
    'sinkscope.wasm',
    'sinkscope.threads.wasm',
    'sinkscope.lab.wasm',
    'sinkscope.lab.threads.wasm',
  ]) {
    assert.ok(existsSync(pathInPackage(path)), `${path} is in the package`);
  }
  assert.match(readFileSync(pathInPackage('LICENSE'), 'utf8'), /Apache License/);

  const alpha = JSON.parse(runIn(folder, process.execPath, 'main.js', model));
  await withEngine({}, async (engine) => {
    const run = await (await engine.open(files(softmax))).run([0, 17, 392]);
    assert.deepEqual(alpha, [...(await run.metric('alpha')).data]);
  });

  const outputLines = runIn(folder, process.execPath, 'sink.mjs', model).split('\n');
  assert.match(outputLines[0], /^79\.2% of the heads have a sink$/);
  assert.match(outputLines[1], /^without L\dH\d the loss changes by -?\d\.\d{3} nats$/);
  assert.match(outputLines.slice(2).join('\n'), /looked over the water\.[^]{10}/);
  assert.equal(PROGRAM.trim().split('\n').filter(Boolean).length, 9);

  const cli = join(folder, 'node_modules/.bin/sinkscope');
  const measureArgs = ['measure', model, '--text-file', 'text.txt', '--tokens', '16', '--json'];
  assert.equal(JSON.parse(runIn(folder, cli, ...measureArgs)).T, 16);
});
