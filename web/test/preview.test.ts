/** A preview and a refinement restore the exact weights of every model that has them. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SinkscopeError } from 'sinkscope';
import { describe, expect, it, vi } from 'vitest';
import { openZoo, zooAddress, type Card } from '../src/ask/zoo';
import { parseHeader, refine, unpack } from '../src/ask/preview';

const zoo = new URL('../../models/zoo/', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, zoo));
const unpackFile = (path: string) => unpack(new Uint8Array(read(path)), path);
const cards = (JSON.parse(read('index.json').toString()) as Card[]).filter(
  ({ preview }) => preview,
);

describe.each(cards)('the preview of $id', ({ id, sha256, preview }) => {
  const [first, rest] = [`${id}/${preview!.file}`, `${id}/${preview!.refinement!.file}`];

  it('and its refinement add up to the bytes of model.safetensors', async () => {
    const refined = refine(await unpackFile(first), await unpackFile(rest), rest);
    expect(Buffer.from(refined).equals(read(`${id}/model.safetensors`))).toBe(true);
    expect(createHash('sha256').update(refined).digest('hex')).toBe(sha256);
  });

  it('has the config of the model, and at most the size on its card', async () => {
    const { config } = parseHeader(await unpackFile(first), first);
    expect(config).toBe(read(`${id}/config.json`).toString());
    expect(read(first).length).toBe(preview!.bytes);
    expect(read(rest).length).toBe(preview!.refinement!.bytes);
  });
});

describe('a damaged file', () => {
  const [{ id, preview }] = cards as [Card];
  const [first, rest] = [`${id}/${preview!.file}`, `${id}/${preview!.refinement!.file}`];
  const code = { code: 'bad_file', where: rest };

  it('is rejected if it is of another kind, cut short, or of another model', async () => {
    const page = new TextEncoder().encode('<!doctype html><title>Log in</title>');
    const [previewBytes, refinement] = [await unpackFile(first), await unpackFile(rest)];
    for (const wrong of [
      page,
      new Uint8Array(3),
      refinement.subarray(0, refinement.length - 1),
      previewBytes,
    ])
      expect(() => refine(previewBytes, wrong, rest)).toThrow(expect.objectContaining(code));
    for (const wrong of [page, previewBytes.subarray(0, 700_000)])
      expect(() => refine(wrong, refinement, rest)).toThrow(expect.objectContaining(code));
    const truncated = new Uint8Array(read(rest).subarray(0, 5000));
    await expect(unpack(truncated, rest)).rejects.toThrow(SinkscopeError);
    const cutMessage = 'expected a complete gzip file, found 5,000 bytes that do not unpack';
    await expect(unpack(truncated, rest)).rejects.toThrow(cutMessage);
    // A file is packed only if both of its first bytes say so.
    const plainBytes = Uint8Array.of(0x1f, 1, 2);
    expect(await unpack(plainBytes, first)).toBe(plainBytes);
    // Some servers unpack .gz files on their own.
    const unpackedAgain = await unpack(new Uint8Array(previewBytes), first);
    expect(Buffer.from(unpackedAgain).equals(previewBytes)).toBe(true);
  });
});

it('what is drawn first is fetched first, each file once, and the next while the last is drawn', async () => {
  const ids = ['sigmoid', 'softmax'];
  const served = new Map<string, () => void>();
  const requests: string[] = [];
  vi.stubGlobal('fetch', async (url: URL) => {
    const name = url.href.slice(zooAddress('').href.length);
    requests.push(name);
    if (name !== 'index.json') await new Promise<void>((serve) => served.set(name, serve));
    return new Response(read(name));
  });
  const serve = async (name: string) => {
    await vi.waitFor(() => expect(served.has(name)).toBe(true));
    served.get(name)!();
  };
  const zoo = await openZoo();
  const ahead = zoo.fetchAhead([...ids, 'hub:o/n'], true);
  const [first, second] = ids as [string, string];
  const fileOf = (id: string, part: string) => `${id}/${part}.gz`;
  const order = ['preview', 'refinement'].flatMap((part) => ids.map((id) => fileOf(id, part)));
  // The first model is drawn, and its exact weights are requested, before the others have come.
  const firstDrawn = zoo.preview(first);
  await serve(order[0]!);
  await firstDrawn;
  await serve(order[1]!);
  await vi.waitFor(() => expect(requests.slice(1)).toEqual(order.slice(0, 3)));
  const exact = zoo.exact(first);
  await serve(order[2]!);
  await exact;
  await serve(order[3]!);
  await Promise.all([ahead, zoo.exact(second)]);
  expect(requests.slice(1)).toEqual(order);
  // What is exact by now is not fetched ahead again.
  await zoo.fetchAhead(ids, true);
  expect(requests.slice(1)).toEqual(order);
});

it('a browser that saves data gets no refinement ahead', async () => {
  const requests: string[] = [];
  vi.stubGlobal('fetch', async (url: URL) => {
    requests.push(url.href.slice(zooAddress('').href.length));
    return new Response(read(requests.at(-1)!));
  });
  const zoo = await openZoo();
  await zoo.fetchAhead(['sigmoid', 'softmax'], false);
  expect(requests.filter((name) => name.includes('refinement'))).toEqual([]);
  expect(requests).toHaveLength(3);
});

it('a preview is released once the exact weights are fetched', async () => {
  const [{ id, preview }] = cards as [Card];
  const requests: string[] = [];
  vi.stubGlobal('fetch', async (url: URL) => {
    requests.push(url.href.slice(zooAddress('').href.length));
    return new Response(read(requests.at(-1)!));
  });
  const zooOfPage = await openZoo();
  await zooOfPage.exact(id);
  await zooOfPage.preview(id);
  const files = [preview!.file, preview!.refinement!.file, preview!.file];
  expect([...requests].sort()).toEqual(
    ['index.json', ...files.map((file) => `${id}/${file}`)].sort(),
  );
});
