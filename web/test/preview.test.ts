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
    const made = refine(await unpackFile(first), await unpackFile(rest), rest);
    expect(Buffer.from(made).equals(read(`${id}/model.safetensors`))).toBe(true);
    expect(createHash('sha256').update(made).digest('hex')).toBe(sha256);
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
    const [known, whole] = [await unpackFile(first), await unpackFile(rest)];
    for (const wrong of [page, new Uint8Array(3), whole.subarray(0, whole.length - 1), known])
      expect(() => refine(known, wrong, rest)).toThrow(expect.objectContaining(code));
    for (const wrong of [page, known.subarray(0, 700_000)])
      expect(() => refine(wrong, whole, rest)).toThrow(expect.objectContaining(code));
    const cut = new Uint8Array(read(rest).subarray(0, 5000));
    await expect(unpack(cut, rest)).rejects.toThrow(SinkscopeError);
    // A file is packed only if both of its first bytes say so.
    const plain = Uint8Array.of(0x1f, 1, 2);
    expect(await unpack(plain, first)).toBe(plain);
    // Some servers unpack .gz files on their own.
    const again = await unpack(new Uint8Array(known), first);
    expect(Buffer.from(again).equals(known)).toBe(true);
  });
});

it('a preview is released once the exact weights are fetched', async () => {
  const [{ id, preview }] = cards as [Card];
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (url: URL) => {
    asked.push(url.href.slice(zooAddress('').href.length));
    return new Response(read(asked.at(-1)!));
  });
  const opened = await openZoo();
  await opened.exact(id);
  await opened.preview(id);
  const files = [preview!.file, preview!.refinement!.file, preview!.file];
  expect([...asked].sort()).toEqual(['index.json', ...files.map((file) => `${id}/${file}`)].sort());
});
