import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { Scope } from '../src/page/context';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('a scope ends with its parent, once', () => {
  const parent = new Scope();
  const child = parent.child();
  let ends = 0;
  child.onEnd(() => ends++);
  child.end();
  parent.child().onEnd(() => ends++);
  parent.end();
  parent.end();
  expect(ends).toBe(2);
});

test('a scope that has ended is not kept by its parent', async () => {
  const parent = new Scope();
  const ended = (() => {
    const child = parent.child();
    child.end();
    return new WeakRef(child);
  })();
  // A reference that was made or read in this turn is kept until it ends.
  await new Promise((done) => setTimeout(done));
  collect();
  expect(ended.deref()).toBeUndefined();
  parent.end();
});
