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
