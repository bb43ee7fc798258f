/** The packed weights of the zoo: the same numbers as model.safetensors, in a file that the page unpacks. */
import { readFileSync } from 'node:fs';
import { createEngine, SinkscopeError } from 'sinkscope';
import { describe, expect, it, vi } from 'vitest';
import { openZoo, unpack, zooAddress, type Card } from '../src/ask/zoo';

const zoo = new URL('../../models/zoo/', import.meta.url);
const read = (path: string) => new Uint8Array(readFileSync(new URL(path, zoo)));
const cards = (JSON.parse(new TextDecoder().decode(read('index.json'))) as Card[]).filter(
  ({ packed }) => packed,
);

describe.each(cards)('the packed weights of $id', ({ id, packed }) => {
  const path = `${id}/${packed!.file}`;

  it('give the same bits as model.safetensors, and have the config and size of the card', async () => {
    const config = new TextDecoder().decode(read(`${id}/config.json`));
    expect(packed!.config).toEqual(JSON.parse(config));
    expect(read(path).length).toBe(packed!.bytes);
    const engine = await createEngine();
    const results = [];
    for (const weights of [await unpack(read(path), path), read(`${id}/model.safetensors`)]) {
      const model = await engine.open({ config, weights });
      const run = await model.run([0, 300, 41, 7, 1000, 41], { fields: ['att', 'logits'] });
      results.push([await run.field('logits'), await run.metric('alpha')]);
      await model.close();
    }
    await engine.close();
    expect(results[0]).toEqual(results[1]);
  });

  it('are rejected if they are cut short, and taken as they are if the server has unpacked them', async () => {
    const cutMessage = 'expected a complete gzip file';
    await expect(unpack(read(path).slice(0, 5000), path)).rejects.toThrow(SinkscopeError);
    await expect(unpack(read(path).slice(0, 5000), path)).rejects.toThrow(cutMessage);
    // A file is packed only if both of its first bytes say so.
    const plainBytes = Uint8Array.of(0x1f, 1, 2);
    expect(await unpack(plainBytes, path)).toBe(plainBytes);
  });
});

it('what is drawn first is fetched first, and each file once', async () => {
  const served = new Map<string, () => void>();
  const requests: string[] = [];
  vi.stubGlobal('fetch', async (url: URL) => {
    const name = url.href.slice(zooAddress('').href.length);
    requests.push(name);
    if (name !== 'index.json') await new Promise<void>((serve) => served.set(name, serve));
    return new Response(read(name));
  });
  const zooOfPage = await openZoo();
  const ahead = zooOfPage.fetchAhead(['sigmoid', 'softmax', 'hub:o/n']);
  const drawn = zooOfPage.files('sigmoid');
  const [first, second] = ['sigmoid/packed.gz', 'softmax/packed.gz'] as const;
  await vi.waitFor(() => expect(served.has(first)).toBe(true));
  expect(requests.slice(1)).toEqual([first]);
  served.get(first)!();
  await drawn;
  await vi.waitFor(() => expect(served.has(second)).toBe(true));
  served.get(second)!();
  await Promise.all([ahead, zooOfPage.files('softmax')]);
  expect(requests.slice(1)).toEqual([first, second]);
});
