// @vitest-environment happy-dom
import { turn } from './fixture';
import { expect, it } from 'vitest';
import { takeTurn } from '../src/embed/turns';

it('figures of a document work one at a time, in their order', async () => {
  const hostOf = (id: string) => {
    const host = document.createElement('div');
    host.id = id;
    document.body.append(host);
    return host;
  };
  const [a, b, c] = [hostOf('a'), hostOf('b'), hostOf('c')];
  const said: string[] = [];
  let now = 0;
  const work = async (host: HTMLElement, times: number) => {
    for (let i = 0; i < times; i++) {
      const giveBack = await takeTurn(host);
      expect(++now).toBe(1);
      await new Promise((done) => setTimeout(done, 1));
      said.push(host.id);
      now--;
      giveBack();
    }
  };
  // The last figure came first and has begun; then the first figure completes before the others continue.
  const began = work(c, 2);
  await turn();
  await Promise.all([began, work(b, 2), work(a, 3)]);
  expect(said.join('')).toBe('caaabbc');
  await work(b, 1);
  expect(said.at(-1)).toBe('b');
  // Of simultaneous requests the first figure's is served first.
  said.length = 0;
  await Promise.all([work(c, 1), work(a, 2), work(b, 1)]);
  expect(said.join('')).toBe('aabc');
});
