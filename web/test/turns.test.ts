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
  const turnLog: string[] = [];
  let runningCount = 0;
  const work = async (host: HTMLElement, times: number) => {
    for (let i = 0; i < times; i++) {
      const giveBack = await takeTurn(host);
      expect(++runningCount).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 1));
      turnLog.push(host.id);
      runningCount--;
      giveBack();
    }
  };
  // The last figure came first and has begun; then the first figure completes before the others continue.
  const secondWork = work(c, 2);
  await turn();
  await Promise.all([secondWork, work(b, 2), work(a, 3)]);
  expect(turnLog.join('')).toBe('caaabbc');
  await work(b, 1);
  expect(turnLog.at(-1)).toBe('b');
  // Of simultaneous requests the first figure's is served first.
  turnLog.length = 0;
  await Promise.all([work(c, 1), work(a, 2), work(b, 1)]);
  expect(turnLog.join('')).toBe('aabc');
});
