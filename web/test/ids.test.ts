/** Names of models, and the files of the page: ids, fingerprints, passages, retries. */
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Plan } from 'sinkscope';
import {
  fingerprintOf,
  hubName,
  idOfFiles,
  idOfPlan,
  isHubId,
  nameOfId,
  titleOfFiles,
} from '../src/ask/ids';
import { planRows } from '../src/open/words';
import { nearestStep } from '../src/ask/steps';
import {
  atStep,
  choicesOf,
  isCounterfactual,
  operationOf,
  parseSubject,
  titleOf,
  withoutEdits,
} from '../src/ask/subject';
import {
  corpusName,
  heldOutFile,
  openZoo,
  passagesPerPrompt,
  readWithRetry,
  seedsOf,
  zooAddress,
  type Card,
} from '../src/ask/zoo';

afterEach(() => vi.unstubAllGlobals());

const disk = (...weights: { name: string; bytes: number; blob?: Blob }[]) =>
  ({ id: 'files', format: 'safetensors', files: { weights } }) as unknown as Plan;
const sha = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex');

describe('a model on a disk', () => {
  it('is identified by the sizes and both ends of its files, and has a name for links', async () => {
    const MIB = 2 ** 20;
    const bytes = new Uint8Array(3 * MIB).map((_, i) => i % 251);
    const ends = [...bytes.subarray(0, MIB), ...bytes.subarray(2 * MIB)];
    const id = (data: Uint8Array<ArrayBuffer>, name = 'my model.bin') =>
      idOfFiles(disk({ name, bytes: data.length, blob: new Blob([data]) }));
    const expected = sha(`my model.bin ${bytes.length} ${sha(Uint8Array.from(ends))}`).slice(0, 16);
    const fileId = await id(bytes);
    expect(fileId).toBe(`disk:${expected}/my-model.bin`);
    expect([fingerprintOf(fileId), nameOfId(fileId)]).toEqual([expected, 'my-model.bin']);
    // A changed byte in the middle does not change the id, one at either end does.
    const withChangeAt = (at: number) => bytes.with(at, 255) as Uint8Array<ArrayBuffer>;
    expect(await id(withChangeAt(1.5 * MIB))).toBe(fileId);
    for (const at of [0, MIB - 1, 2 * MIB, 3 * MIB - 1])
      expect(await id(withChangeAt(at))).not.toBe(fileId);
    const smallFile = bytes.slice(0, 10);
    expect(await id(smallFile)).toBe(
      `disk:${sha(`my model.bin 10 ${sha(smallFile)}`).slice(0, 16)}/my-model.bin`,
    );
    expect((await id(smallFile, 'x'.repeat(99))).split('/')[1]).toHaveLength(80);
    expect((await id(smallFile, '')).split('/')[1]).toBe('model');
    expect(parseSubject(await id(smallFile, 'ä'.repeat(3)))!.id).toMatch(/\/-$/);
    const oneByte = { bytes: 1 };
    const names = await idOfFiles(disk({ name: 'a', ...oneByte }, { name: 'b', ...oneByte }));
    const emptyHash = sha(new Uint8Array());
    expect(fingerprintOf(names)).toBe(sha(`a 1 ${emptyHash}\nb 1 ${emptyHash}`).slice(0, 16));
  });

  it('is identified by names and sizes if the browser has no digests', async () => {
    vi.stubGlobal('crypto', undefined);
    expect(await idOfFiles(disk({ name: 'a', bytes: 7 }))).toBe('disk:6120372000000000/a');
  });

  it('has a name that turns no sentence around', () => {
    const titleOf = (id: string) => titleOfFiles({ ...disk({ name: 'a', bytes: 1 }), id });
    expect(titleOf('a\u202erosnetefas')).toBe('arosnetefas');
    expect(titleOf('نموذج 1')).toBe('\u2068نموذج 1\u2069');
    expect(titleOf('Z\u0301\u0302a')).toBe('Z\u0301\u0302a');
  });

  it('is named by its folder, or by its file', () => {
    expect(
      titleOfFiles({ ...disk({ name: 'a.bin', bytes: 1 }), id: 'my-folder' }),
    ).toMatchSnapshot();
    expect([
      titleOfFiles(disk({ name: 'a.bin', bytes: 1 })),
      titleOfFiles(disk()),
    ]).toMatchSnapshot();
  });
});

it('a model of a hub is named by its repository, revision and file', () => {
  const plan = (change: object) => idOfPlan({ ...disk(), id: 'o/n', ...change });
  const weights = [{ name: 'q4.gguf' }, { name: 'more' }];
  expect([
    plan({}),
    plan({ revision: 'x' }),
    plan({ format: 'gguf', files: { weights } }),
  ]).toMatchSnapshot();
  expect(plan({ format: 'hf', files: { weights } })).toBe('hub:o/n');
  expect([
    isHubId('hub:o/n'),
    hubName('hub:o/n@x'),
    nameOfId('hub:o/n'),
    nameOfId('softmax'),
  ]).toEqual([...[true, 'o/n@x', 'o/n', 'softmax']]);
});

it('a plan states the format of its weights and how many bytes are cached', () => {
  const file = (name: string, url?: string) => ({ name, bytes: 5e6, url });
  const rows = (change: object, kept = 0) =>
    Object.fromEntries(
      planRows({ ...disk(), format: 'pytorch', bytes: 5e6, memory: 7e6, ...change } as never, kept),
    );
  const remote = { files: { weights: [file('a', 'https://x/'), file('b', 'https://x/')] } };
  expect(rows(remote)).toMatchObject({
    weights: '2 files, PyTorch',
    'to download': '5.0 MB',
    revision: 'main',
    license: 'not stated',
  });
  expect(rows(remote, 9e6)['to download']).toMatchSnapshot();
  expect(rows({ ...remote, bytes: 0 })['to download']).toBe('size unknown');
  const withVocabulary = { files: { weights: [file('a')], vocab: file('v'), merges: file('m') } };
  expect(rows(withVocabulary, 1)).toMatchSnapshot();
  expect(rows({ files: { weights: [file('a')], vocab: file('v') } }).tokenizer).toMatch(
    /^none: .*token ids/,
  );
  expect(rows({ ...withVocabulary, license: 'MIT', remembered: true })).toMatchObject({
    license: 'MIT',
    source: expect.stringContaining('cached from an earlier visit'),
  });
  expect(rows({ ...withVocabulary, format: 'gguf' }).tokenizer).toBe('in the GGUF file');
});

describe('a subject', () => {
  const describe_ = {
    operations: [],
    edits: [
      { name: 'silence', counterfactual: true, parameters: [] },
      {
        name: 'evict',
        counterfactual: false,
        parameters: [{ name: 'policy', choices: ['window', 'h2o'], labels: ['recent', 'H2O'] }],
      },
      { name: 'bare', parameters: [{ name: 'to', choices: ['zero'] }] },
    ],
  } as never;

  it('has the labels of its edits, its operation, and whether it is counterfactual', () => {
    expect(choicesOf(describe_, 'evict', 'policy')).toMatchSnapshot();
    expect([choicesOf(describe_, 'bare', 'to'), choicesOf(describe_, 'x', 'to')]).toMatchSnapshot();
    const edits = (...kinds: string[]) => kinds.map((kind, i) => ({ kind, operation: i })) as never;
    expect(operationOf(edits('operation', 'evict', 'operation'))).toMatchObject({ operation: 2 });
    expect(operationOf(edits('evict'))).toBeUndefined();
    const areCounterfactual = (...kinds: string[]) => isCounterfactual(edits(...kinds), describe_);
    expect([
      areCounterfactual(),
      areCounterfactual('evict'),
      areCounterfactual('silence'),
      areCounterfactual('evict', 'silence'),
      areCounterfactual('unknown'),
    ]).toEqual([...[false, false, true, true, true]]);
  });

  it('has a title with its step, and a version without edits', () => {
    const title = (text: string) => titleOf(parseSubject(text)!, 'Model', describe_);
    expect(title('softmax@1400')).toBe('Model at step 1,400');
    expect(title('softmax@0~nothing(1,2)')).toBe('Model at step 0, nothing(1,2)');
    expect(withoutEdits('softmax@7~silence(1,2)')).toBe('softmax@7');
    expect(withoutEdits('?!')).toBe('?!');
    expect(atStep(parseSubject('a@4')!, undefined)).toEqual({ id: 'a', edits: [] });
    expect(atStep(parseSubject('a')!, 0)).toEqual({ id: 'a', step: 0, edits: [] });
    expect(nearestStep([0, 9], 2)).toBe(0);
    expect(nearestStep([0, 9], 3)).toBe(9);
  });
});

describe('the zoo', () => {
  const passages = Array.from({ length: 5 }, (_, i) => `long ${i}`);
  const cards = [{ id: 'softmax', packed: { file: 'p.gz', config: { a: 1 } } }, { id: 'relu' }];
  const files: Record<string, unknown> = {
    'index.json': cards,
    'heldout.json': ['short'],
    'heldout-long.json': passages,
    'reported.json': { source: 'a paper' },
    'softmax/p.gz': 'xyz',
  };

  function serve(answer: (name: string, cache: string) => Response | undefined = () => undefined) {
    const requests: string[] = [];
    vi.stubGlobal('fetch', async (url: URL, { cache }: { cache: string }) => {
      const name = url.href.slice(zooAddress('').href.length);
      requests.push(`${name} ${cache}`);
      const file = files[name];
      return (
        answer(name, cache) ?? new Response(typeof file === 'string' ? file : JSON.stringify(file))
      );
    });
    return requests;
  }

  it('has passages of the required lengths, with long ones joined', async () => {
    expect([100, 101].map(heldOutFile)).toEqual(['heldout.json', 'heldout-long.json']);
    expect([100, 101].map(corpusName)).toEqual(['100 short passages', '40 long passages']);
    expect([1, 100, 101, 150, 151, 300, 301].map(passagesPerPrompt)).toEqual([1, 1, 1, 1, 2, 2, 3]);
    serve();
    const zoo = await openZoo();
    expect(await zoo.heldOut(100)).toEqual(['short']);
    expect(await zoo.heldOut(150)).toEqual(passages);
    expect(await zoo.heldOut(151)).toEqual(['long 0\n\nlong 1', 'long 2\n\nlong 3']);
    expect(await zoo.heldOut(9999)).toEqual([passages.join('\n\n')]);
  });

  it('fetches each file once, and packed weights again where they were damaged', async () => {
    const requests = serve();
    const zoo = await openZoo();
    expect(zoo.cards).toEqual(cards);
    await Promise.all([zoo.heldOut(9), zoo.heldOut(9), zoo.openModels()]);
    await zoo.fetchAhead(['relu', 'hub:o/n', 'softmax']);
    const [files, sameFiles] = await Promise.all([zoo.files('softmax'), zoo.files('softmax')]);
    expect([files, files.config, files.weights.length]).toEqual([sameFiles, '{"a":1}', 3]);
    expect(requests).toHaveLength(4);
    zoo.forget('softmax');
    await zoo.files('softmax');
    expect(requests).toHaveLength(5);
  });

  it('fetches a damaged file again past the browser’s cache, and rejects what is not a file', async () => {
    const requests = serve((name, cache) =>
      name === 'heldout.json' && cache === 'default' && requests.length < 3
        ? new Response('<html>')
        : undefined,
    );
    const zoo = await openZoo();
    expect(await zoo.heldOut(9)).toEqual(['short']);
    expect(requests.slice(1)).toMatchSnapshot();
    serve((name) => (name === 'reported.json' ? new Response('', { status: 404 }) : undefined));
    await expect(zoo.openModels()).rejects.toThrowErrorMatchingSnapshot();
    serve(() => {
      throw new TypeError('Failed to fetch');
    });
    await expect(zoo.openModels()).rejects.toThrowErrorMatchingSnapshot();
    serve();
    expect(await zoo.openModels()).toEqual({ source: 'a paper' });
    serve(() => new Response(`<html>${'x'.repeat(60)}`));
    await expect(openZoo()).rejects.toThrowErrorMatchingSnapshot();
    const lostError = new Error('lost');
    const read = vi.fn(async () => Promise.reject(lostError));
    await expect(readWithRetry([], read, () => false)).rejects.toBe(lostError);
    expect(read).toHaveBeenCalledTimes(1);
    await expect(readWithRetry([], read, () => true)).rejects.toBe(lostError);
    expect(read).toHaveBeenCalledTimes(3);
  });

  it('lists the runs of a recipe by seed', () => {
    const measured = { sink_1: 60, value_ratio: 0.5, loss: 3 };
    expect(seedsOf({ measured } as unknown as Card)).toEqual({
      shippedSeed: 1,
      all: [{ seed: 1, ...measured }],
    });
  });
});
