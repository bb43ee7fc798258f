/**
 * Measures the cost of an eviction: the processor time of a run of the softmax twin under each policy, divided by that
 * of the plain run. Each time is the minimum of several runs that record only losses. The context of the twin is
 * stretched to 512.
 *
 *     node tests/bench/evict.mjs [T]
 */
import { readFileSync } from 'node:fs';
import { createEngine } from '../../wasm/index.ts';
import { usedSince } from './process.mjs';

const T = Number(process.argv[2] ?? 512);
const ROUNDS = 9;
const folder = new URL('../../models/zoo/softmax/', import.meta.url);
const config = JSON.parse(readFileSync(new URL('config.json', folder), 'utf8'));
const engine = await createEngine({ worker: false });
const model = await engine.open({
  config: JSON.stringify({ ...config, max_position_embeddings: T }),
  weights: readFileSync(new URL('model.safetensors', folder)),
});
const ids = Array.from({ length: T }, (_, i) => (i * i * 31 + 7) % config.vocab_size);

const POLICIES = ['window', 'first', 'h2o', 'tova', 'snapkv', 'key_norm', 'vatp', 'random'];
const policyParameters = { first: { first: 1 }, snapkv: { prompt: 300, queries: 16 } };
const cases = [{ name: 'plain', edits: [] }];
for (const budget of [64, 256])
  for (const positions of ['text', 'cache'])
    for (const policy of POLICIES)
      cases.push({
        name: `${policy} ${budget} ${positions}`,
        edits: [{ kind: 'evict', policy, budget, positions, ...policyParameters[policy] }],
      });

const best = cases.map(() => Infinity);
for (let round = 0; round < ROUNDS; round++)
  for (const [i, { edits }] of cases.entries()) {
    const before = process.cpuUsage();
    const run = await model.run(ids, { fields: ['loss'], edits, capacity: T });
    best[i] = Math.min(best[i], usedSince(before));
    await run.close();
  }
console.log(`plain, T = ${T}: ${best[0].toFixed(1)} ms of processor time`);
console.log(`| budget, positions | ${POLICIES.join(' | ')} |`);
console.log(`|---|${'---|'.repeat(POLICIES.length)}`);
for (let i = 1; i < cases.length; i += POLICIES.length) {
  const [, ...setting] = cases[i].name.split(' ');
  const ratios = best.slice(i, i + POLICIES.length).map((time) => (time / best[0]).toFixed(2));
  console.log(`| ${setting.join(', ')} | ${ratios.join(' | ')} |`);
}
await engine.close();
