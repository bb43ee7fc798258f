import { describe, expect, it, vi } from 'vitest';
import { SinkscopeError, type Plan } from 'sinkscope';
import { suggestions } from '../src/open/catalog';
import { checkpointId, checkpointOf, PYTHIA_STEPS } from '../src/ask/steps';
import { planRows } from '../src/open/words';
import { loadWords, runWords, sizeWords } from '../src/run/progress';
import { isTimeout, errorSentence } from '../src/ask/errors';
import { idOfPlan, titleOfFiles, isOnDisk } from '../src/ask/ids';
import { defaults, linkableState, parseHash, printHash } from '../src/ask/state';

const file = (name: string) => ({ name, bytes: 5e6, url: `https://hub.example/${name}` });

function plan(change: Partial<Plan> = {}): Plan {
  return {
    id: 'owner/name',
    format: 'safetensors',
    files: { weights: [file('model.safetensors')], tokenizer: file('tokenizer.json') },
    bytes: 5e6,
    memory: 7e6,
    choices: [],
    revision: 'main',
    commit: '0123456789abcdef0123456789abcdef01234567',
    ...change,
  };
}

describe('formatted sizes and rates', () => {
  it('have decimal units', () => {
    expect([0, 999_499, 5.3e7, 2.51e9].map(sizeWords)).toMatchSnapshot();
    expect(sizeWords(NaN)).toBe('unknown size');
  });

  it('give the memory of a long run, and the remaining time from one second on', () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(11_000);
    const remainingWords = (done: number, total: number) =>
      runWords(4096, 3e6, { done, total, since: 1000 }).slice(40);
    expect(runWords(4096, 3e6, { done: 2, total: 4, since: 1000 })).toMatchSnapshot();
    expect([
      remainingWords(10, 11),
      remainingWords(11, 12),
      remainingWords(0, 4),
      remainingWords(4, 4),
    ]).toEqual([...[', about 1 s left', '', '', '']]);
    now.mockRestore();
  });

  it('omit unknown values', () => {
    expect(loadWords({ done: 1e6, total: NaN, rate: NaN })).toBe('1.0 MB');
    const download = {
      done: 1e6,
      total: 9e7,
      rate: 1e6,
      remaining: 89,
      note: 'connection was cut',
    };
    expect(loadWords(download)).toMatchSnapshot();
    expect(loadWords({ done: 1e6, total: 9e9, rate: 1e5, remaining: 90_000 })).toMatch(/25\.0 h/);
    const remainingWords = (remaining: number) =>
      loadWords({ done: 0, total: NaN, remaining }).slice(7);
    expect([0, 0.5, 89, 90, 91, 5399, 5400, -1].map(remainingWords)).toMatchSnapshot();
    expect(loadWords({ done: 0, total: 0, rate: 0 })).toBe('0 kB of 0 kB');
    expect([1e6, 9.99e6, 1e7, 1e9].map(sizeWords)).toMatchSnapshot();
  });

  it('end an error with its code', () => {
    const error = new SinkscopeError('not_found', 'owner/name', 'expected a model, found none');
    expect(errorSentence(error)).toMatchSnapshot();
    expect(errorSentence('x')).toBe('x');
    const slowError = new SinkscopeError('too_slow', 'run', 'expected an end');
    expect([slowError, error, new Error('too_slow')].map(isTimeout)).toEqual([true, false, false]);
  });
});

describe('a plan', () => {
  it('has an id that identifies its files in links', () => {
    const gguf = { format: 'gguf', files: { weights: [file('a-Q4_0.gguf')] } } as const;
    const ids = [
      idOfPlan(plan()),
      idOfPlan(plan({ revision: 'step512' })),
      idOfPlan(plan({ ...gguf, revision: 'refs/pr/1' })),
    ];
    expect(ids).toMatchSnapshot();
    for (const id of ids) {
      const link = `#${printHash({ ...defaults, shown: [id] })}`;
      expect(parseHash(link)).toEqual({ state: { ...defaults, shown: [id] }, problems: [] });
    }
  });

  it('gives download size, memory and license', () => {
    const rows = new Map(planRows(plan(), 2e6));
    expect(rows.get('to download')).toMatchSnapshot();
    expect(rows.get('memory')).toBe('about 7.0 MB');
    expect(rows.get('license')).toBe('not stated');
    expect(rows.get('revision')).toBe('main (commit 01234567)');
  });

  it('of a model on a disk is named after its folder or file, and needs no consent', () => {
    const weights = [{ name: 'my.safetensors', bytes: 5e6, blob: new Blob() }];
    const ownPlan = plan({
      id: 'files',
      files: { weights },
      commit: undefined,
      revision: undefined,
    });
    expect(titleOfFiles(ownPlan)).toBe('my.safetensors');
    expect(titleOfFiles({ ...ownPlan, id: 'folder' })).toBe('folder');
    const rows = new Map(planRows(ownPlan, 0));
    expect(rows.has('to download') || rows.has('revision')).toBe(false);
    expect(rows.get('tokenizer')).toMatch(/^none: .*token ids/);
  });
});

describe('links', () => {
  it('do not contain models on a disk', () => {
    const disk = 'disk:0123456789abcdef/my.safetensors';
    expect([isOnDisk(disk), isOnDisk('softmax'), isOnDisk('hub:a/disk')]).toEqual([
      true,
      false,
      false,
    ]);
    const state = { ...defaults, shown: [disk, 'hub:owner/name'] };
    expect(linkableState(state)).toEqual({ ...state, shown: ['hub:owner/name'] });
    // If the reader chooses so, a link names models on the disk, for readers who have the same files.
    const namedState = linkableState(state, true);
    expect(parseHash(`#${printHash(namedState)}`).state.shown).toEqual(state.shown);
  });

  it('reject a malformed hub name', () => {
    for (const bad of ['hub:', 'hub:a b', 'hub:a\\b', 'hub:a\nb', 'hub://x', 'http://x'])
      expect(parseHash(`#shown=${encodeURIComponent(bad)}`).problems).toHaveLength(1);
  });
});

describe('the catalog', () => {
  it('has names that fit a link, each once', () => {
    const ids = suggestions.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(parseHash(`#shown=hub:${id}`).problems).toEqual([]);
  });

  it('has the 154 checkpoints of Pythia in rising order', () => {
    expect(PYTHIA_STEPS).toHaveLength(154);
    expect([...PYTHIA_STEPS].sort((a, b) => a - b)).toEqual([...PYTHIA_STEPS]);
    expect([PYTHIA_STEPS[0], PYTHIA_STEPS[10], PYTHIA_STEPS[11], PYTHIA_STEPS.at(-1)]).toEqual([
      0, 512, 1000, 143000,
    ]);
  });

  it('parses a checkpoint’s id into repository and step, and prints it again', () => {
    const id = 'hub:EleutherAI/pythia-14m@step512';
    expect(checkpointOf(id)).toEqual({ repository: 'EleutherAI/pythia-14m', step: 512 });
    expect(checkpointId(checkpointOf(id)!)).toBe(id);
    expect(checkpointOf('hub:EleutherAI/pythia-70m')?.step).toBe(143000);
    expect(checkpointOf('hub:EleutherAI/pythia-14m@step3')).toBeUndefined();
    expect(checkpointOf('hub:openai-community/gpt2')).toBeUndefined();
    expect(checkpointOf('softmax')).toBeUndefined();
  });
});
