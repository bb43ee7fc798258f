/** Names in links that no table has. */
import { createEngine } from 'sinkscope';
import { expect, it } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import { unknownNames } from '../src/rooms/link_names';
import { isBuilt, UNBUILT } from './fixture';

const base = new URL('../../wasm/', import.meta.url);

/** For each key, a name that its table has and that is not the default. */
const KNOWN: Partial<State> = {
  view: 'lab',
  curve: 'loss',
  columns: ['loss', 'sink_1'],
  policy: 'key_norm',
  positions: 'cache',
  quantized: 'keys',
  granularity: 'channel',
  measure: 'kl',
};

it('are found by the key that has them; the defaults and the names of tables are known', async ({
  skip,
}) => {
  skip(!isBuilt, UNBUILT);
  const engine = await createEngine({ base, worker: false });
  const { describe } = engine;
  await engine.close();
  const find = (change: Partial<State>) => unknownNames({ ...defaults, ...change }, describe);
  expect(find({})).toEqual([]);
  expect(find(KNOWN)).toEqual([]);
  for (const key of Object.keys(KNOWN)) {
    expect(find({ [key]: key === 'columns' ? ['loss', 'foo'] : 'foo' }), key).toEqual([
      [key, 'foo'],
    ]);
  }
});
