/** Tests the caches that later questions reuse: cut prompts and open runs. */
import { describe, expect, it, vi } from 'vitest';
import type { Run, Tokenizer } from 'sinkscope';
import { questionOf, type Question } from '../src/ask/question';
import { defaults, type State } from '../src/ask/state';
import { Loader, type Dependencies } from '../src/run/loading';
import type { OpenModel } from '../src/run/opened';
import { CachedRuns, canUpdate, hasTokens, type CachedRun } from '../src/run/runs';

const tokenizerOf = (piece: string) =>
  ({
    ...{ size: 9, bos: null, special: [], specials: [], piece: () => piece },
    encode: vi.fn((text: string) =>
      [...text].map((letter) => ({ id: letter.charCodeAt(0), text: letter, special: false })),
    ),
  }) as unknown as Tokenizer;

describe('cut prompts', () => {
  const modelWith = (tokenizer: Tokenizer, V = 100) =>
    ({ tokenizer, model: { architecture: { V } } }) as OpenModel;
  const ask = (change: Partial<State> = {}, more: Partial<Question> = {}) => ({
    ...questionOf({ ...defaults, prompt: 'abcdef', ...change }),
    ...more,
  });
  const createLoader = () => {
    const texts = vi.fn(async () => ['one text', 'another text']);
    return { texts, loading: new Loader({ texts } as unknown as Dependencies) };
  };

  it('are cut once for each tokenizer, vocabulary, question and context', async () => {
    const { texts, loading } = createLoader();
    const [tokenizerA, tokenizerB] = [tokenizerOf('a'), tokenizerOf('b')];
    const firstPrompts = await loading.prompts(modelWith(tokenizerA), ask(), 64);
    expect(await loading.prompts(modelWith(tokenizerA), ask(), 64)).toBe(firstPrompts);
    // A window does not change the prompts, so they are not cut again.
    expect(await loading.prompts(modelWith(tokenizerA), ask({}, { window: 3 }), 64)).toBe(
      firstPrompts,
    );
    expect(texts).toHaveBeenCalledTimes(1);
    const loadsAgain = async (tokenizer: Tokenizer, question: Question, context: number) => {
      const countBefore = texts.mock.calls.length;
      await loading.prompts(modelWith(tokenizer), question, context);
      return texts.mock.calls.length - countBefore;
    };
    expect(await loadsAgain(tokenizerB, ask(), 64)).toBe(1);
    expect(await loadsAgain(tokenizerA, ask(), 64)).toBe(1);
    expect(await loadsAgain(tokenizerA, ask(), 4)).toBe(1);
    expect((await loading.prompts(modelWith(tokenizerA), ask(), 4)).tokens).toHaveLength(4);
    for (const change of [
      { prompt: 'b' },
      { T: 3 },
      { n: 2 },
      { first: 'none' },
      { input: 'heldout' },
    ] as const)
      expect(await loadsAgain(tokenizerA, ask(change), 4), JSON.stringify(change)).toBe(1);
    expect(await loadsAgain(tokenizerA, ask({}, { file: 2 }), 4)).toBe(1);
    // Drawn tokens depend on the model's vocabulary, and models of two vocabularies may share a tokenizer.
    texts.mockClear();
    await loading.prompts(modelWith(tokenizerA, 7), ask({}, { file: 2 }), 4);
    expect(texts).toHaveBeenCalledTimes(1);
  });
});

describe('open runs', () => {
  const models = { a: { architecture: { L: 2, H: 2 } }, b: { architecture: { L: 2, H: 2 } } };
  const openedModel = (name: 'a' | 'b') =>
    ({ id: name, model: models[name] }) as unknown as OpenModel;
  const run = (tokens: number[], edits: object[] = []) =>
    ({ tokens, edits, close: vi.fn(async () => {}) }) as unknown as Run;
  const cachedRun = (change: Partial<CachedRun> = {}) =>
    ({
      ...{ capacity: 8, openModel: openedModel('a'), fields: new Set(['att', 'loss']) },
      ...{ run: run([1, 2, 3]), ...change },
    }) as CachedRun;

  it('can follow a changed text of the same model if it fits and has the needed fields', () => {
    const canFollow = (name: 'a' | 'b', T: number, fields: string[]) =>
      canUpdate(cachedRun(), openedModel(name), T, fields);
    expect(canFollow('a', 8, ['att'])).toBe(true);
    expect(canFollow('a', 8, [])).toBe(true);
    expect(canFollow('b', 8, ['att'])).toBe(false);
    expect(canFollow('a', 9, ['att'])).toBe(false);
    expect(canFollow('a', 8, ['att', 'hidden'])).toBe(false);
  });

  it('belong to a text if every token is equal', () => {
    expect(hasTokens(run([1, 2, 3]), [1, 2, 3])).toBe(true);
    for (const ids of [
      [1, 2],
      [1, 2, 3, 4],
      [1, 2, 4],
      [0, 2, 3],
    ])
      expect(hasTokens(run([1, 2, 3]), ids)).toBe(false);
  });

  it('serve as a base for edited runs of the same model and text', () => {
    const runs = new CachedRuns();
    const plainRun = cachedRun();
    runs.set('edited', cachedRun({ run: run([1, 2, 3], [{ kind: 'silence' }]) }));
    runs.set('other', cachedRun({ openModel: openedModel('b') }));
    expect(runs.baseOf(openedModel('a'), [1, 2, 3])).toBeUndefined();
    runs.set('plain', plainRun);
    expect(runs.baseOf(openedModel('a'), [1, 2, 3])).toBe(plainRun.run);
    expect(runs.baseOf(openedModel('a'), [1, 2])).toBeUndefined();
    expect(runs.baseOf(openedModel('b'), [1, 2])).toBeUndefined();
  });

  it('are handed over if they fit, and closed otherwise', () => {
    const runs = new CachedRuns();
    const keptRun = cachedRun();
    runs.set('a', keptRun);
    expect(runs.take('none', () => true)).toBeUndefined();
    expect(runs.take('a', () => true)).toBe(keptRun);
    expect(keptRun.run.close).not.toHaveBeenCalled();
    expect(runs.get('a')).toBeUndefined();
    runs.set('a', keptRun);
    expect(runs.take('a', () => false)).toBeUndefined();
    expect(keptRun.run.close).toHaveBeenCalledOnce();
  });

  it('are closed when no subject shows them, unless a shown run is based on them', () => {
    const runs = new CachedRuns();
    const runsBySubject = {
      softmax: cachedRun(),
      relu: cachedRun(),
      'softmax~sigmoid': cachedRun(),
    };
    for (const [subject, run] of Object.entries(runsBySubject)) runs.set(subject, run);
    runs.keepOnly(new Set(['relu']));
    expect(
      [...Object.values(runsBySubject)].map(
        ({ run: { close } }) => vi.mocked(close).mock.calls.length,
      ),
    ).toEqual([1, 0, 1]);
    expect([runs.get('softmax'), runs.get('relu')]).toEqual([undefined, runsBySubject.relu]);
    // A link can name edits that contradict each other or that do not exist: the subject itself reports this.
    for (const edits of ['~sigmoid~relu', '~nonsense(1)'])
      expect(() => runs.keepOnly(new Set([`relu${edits}`]))).not.toThrow();
  });
});
