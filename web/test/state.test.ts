import { describe, expect, it } from 'vitest';
import { createEngine, type Describe } from 'sinkscope';
import {
  defaults,
  linkableState,
  linkTo,
  parseHash,
  printHash,
  table,
  type State,
} from '../src/ask/state';
import {
  atStep,
  editChoices,
  editsOf,
  parseSubject,
  printSubject,
  splitSubjects,
  titleOf,
  toggleSubject,
} from '../src/ask/subject';
import { InputError } from '../src/ask/errors';
import { isBuilt, UNBUILT } from './fixture';

const EXAMPLES: Partial<State> = {
  room: 'compare',
  why: 3,
  shown: ['softmax@1400', 'hub:owner/name@rev~sigmoid(-4.8)~evict(window,24)'],
  at: 1,
  input: 'random',
  prompt: 'a & b = c # “d”\n+é',
  seed: 7,
  first: '<|im_start|>',
  T: 12,
  eps: 0.25,
  n: 100,
  layer: 2,
  head: 1,
  query: 5,
  key: 0,
  lastKey: 3,
  cells: 64,
  pool: 'largest',
  zoomQuery: 2048,
  zoomKey: 0,
  channel: 73,
  scope: 'head',
  scale: 'linear',
  normalize: 'yes',
  map: 'dot',
  temperature: 0,
  topK: 5,
  masked: 3,
  denoise: 2,
  hiddenKey: 'random',
  goal: 'steal',
  suffix: 7,
  view: 'norms',
  curve: 'loss',
  leftRun: 'operation:relu,learning_rate:0.005',
  rightRun: 'first:any',
  experiment: 'cache',
  source: 'random',
  length: 64,
  runs: 20,
  firstKeys: 4,
  recentKeys: 40,
  positions: 'cache',
  recompute: 'yes',
  policy: 'key_norm',
  budget: 16,
  sweep: 'all',
  quantized: 'keys',
  granularity: 'channel',
  bits: 4,
  exactTokens: 2,
  perturbation: 'weight',
  repeats: 50,
  measure: 'kl',
  columns: ['loss', 'sink_1'],
  panel: 'seeds',
  theme: 'dark',
  controls: ['text', 'step'],
  hide: ['text', 'save'],
};

describe('the state', () => {
  it('has an example for every setting, so that a new setting is tested', () => {
    expect(Object.keys(EXAMPLES).sort()).toEqual(Object.keys(table).sort());
  });

  it('writes only settings that differ from the defaults, and restores every setting', () => {
    expect(printHash(defaults)).toBe('');
    const exampleState = { ...defaults, ...EXAMPLES };
    const { state, problems } = parseHash(`#${printHash(exampleState)}`);
    expect(problems).toEqual([]);
    expect(state).toEqual(exampleState);
    expect(printHash(exampleState)).toContain(
      'shown=softmax@1400,hub:owner/name@rev~sigmoid(-4.8)~evict(window,24)',
    );
  });

  it('ignores what links of earlier versions say of large models in Compare', () =>
    expect(parseHash('#room=compare&large=yes')).toMatchObject({
      problems: [],
      state: { room: 'compare' },
    }));

  const badHashes: [string, string][] = [
    ['an unknown key', 'nonsense=1'],
    ['__proto__', '__proto__=1'],
    ['a number out of its range', 'T=0'],
    ['a number above its range', 'T=8193'],
    ['no number', 'T=abc'],
    ['an empty number', 'eps='],
    ['a fraction', 'n=1.5'],
    ['another choice', 'theme=blue'],
    ['an unknown control', 'controls=text,txt'],
    ['an unknown part', 'hide=all'],
    ['what is no subject', 'shown=softmax,a b'],
    ['a name that could break out', 'shown=hub:../x\\y'],
    ['too long a text', `prompt=${'x'.repeat(40_001)}`],
  ];
  for (const [name, hash] of badHashes)
    it(`keeps the default and gives the reason: ${name}`, () => {
      const { state, problems } = parseHash(`#${hash}&seed=9`);
      expect(problems).toHaveLength(1);
      expect(state).toEqual({ ...defaults, seed: 9 });
    });

  it('reports at most five problems, and ignores a hash that is too long', () => {
    expect(parseHash('#a1=1&a2=1&a3=1&a4=1&a5=1&a6=1').problems).toHaveLength(5);
    expect(parseHash(`#${'x'.repeat(400_000)}`).problems[0]).toMatch(/too long/);
    expect(parseHash(`#${'x'.repeat(399_999)}`).problems[0]).toMatch(/does not know/);
    const [shortKey, longKey] = [40, 41].map((n) => parseHash(`#${'x'.repeat(n)}=1`).problems[0]);
    expect([shortKey, longKey]).toMatchSnapshot();
  });

  it('carries the longest text, whatever its script, and no longer one', () => {
    const parsedOf = (prompt: string) => parseHash(`#${printHash({ ...defaults, prompt })}`);
    const longPrompt = '字'.repeat(40_000);
    expect(parsedOf(longPrompt)).toMatchObject({ problems: [], state: { prompt: longPrompt } });
    expect(
      [longPrompt, `${longPrompt}x`].map((prompt) => linkableState({ ...defaults, prompt }).prompt),
    ).toEqual([longPrompt, defaults.prompt]);
    expect([64, 65].map((n) => parseHash(`#first=${'x'.repeat(n)}`).problems.length)).toEqual([
      0, 1,
    ]);
    const longSubject = `softmaxx${'~sigmoid'.repeat(249)}`;
    expect(parseHash(`#shown=${longSubject}x`).state.shown).toEqual([longSubject]);
  });

  /** Each number's default, its bounds, and whether it may be a fraction. */
  const NUMBERS: Record<string, readonly [number, number, number, boolean?]> = {
    why: [0, 0, 6],
    at: [0, 0, 5],
    seed: [1, 0, 4294967295],
    T: [64, 1, 8192],
    eps: [0.3, 0, 1, true],
    n: [1, 1, 1000],
    layer: [-1, -1, 1023],
    head: [-1, -1, 1023],
    query: [-1, -1, 8191],
    key: [-1, -1, 8191],
    lastKey: [-1, -1, 8191],
    cells: [512, 8, 1024],
    zoomQuery: [-1, -1, 8191],
    zoomKey: [-1, -1, 8191],
    channel: [-1, -1, 65535],
    temperature: [0.8, 0, 5, true],
    topK: [40, 0, 100000],
    masked: [24, 1, 1024],
    denoise: [12, 1, 1024],
    suffix: [5, 1, 32],
    length: [120, 8, 65536],
    runs: [8, 1, 1000],
    firstKeys: [1, 0, 64],
    recentKeys: [23, 1, 4095],
    budget: [24, 1, 4096],
    bits: [6, 2, 8],
    exactTokens: [1, 1, 64],
    repeats: [100, 1, 4095],
  };

  it('keeps the meaning of numbers in links: their defaults, bounds, and whether they are integers', () => {
    const rows = Object.entries(defaults).filter(([, value]) => typeof value === 'number');
    expect(rows.map(([name]) => name)).toEqual(Object.keys(NUMBERS));
    for (const [name, [standard, low, high, isFraction = false]] of Object.entries(NUMBERS)) {
      const accepts = (value: number) => parseHash(`#${name}=${value}`).problems.length === 0;
      expect([name, defaults[name as keyof State]]).toEqual([name, standard]);
      const accepted = [low - 1, low, low + 0.5, high - 0.5, high, high + 1].map(accepts);
      expect([name, ...accepted]).toEqual([name, false, true, isFraction, isFraction, true, false]);
    }
  });

  it('omits everything about files on the reader’s disk', () => {
    const ownState = {
      ...defaults,
      shown: [
        'disk:0123456789abcdef/my.safetensors',
        'disk:0123456789abcdef/my.safetensors~sigmoid',
        'softmax',
      ],
      input: 'file',
    } as State;
    expect(linkableState(ownState)).toMatchObject({ shown: ['softmax'], input: 'text' });
    expect(
      linkTo({ ...ownState, shown: ['disk:0123456789abcdef/my.safetensors'] }, { room: 'explore' }),
    ).toBe('#room=explore');
  });
});

describe('a subject', () => {
  const texts = [
    ...['softmax', 'softmax@1400', 'softmax~sigmoid', 'softmax@10~sigmoid(-4.8)', 'hub:owner/name'],
    ...['hub:owner/name@step1000', 'hub:owner/name@12~mask(1,32)', 'hub:o/n@main:file.gguf'],
    ...['hub:owner/name@main~mask(1,32)', 'disk:0123456789abcdef/my.safetensors'],
    ...['softmax~hide_key(0,,,5)', 'softmax~silence(,3)'],
  ];
  for (const text of texts)
    it(`is read and written: ${text}`, () => expect(printSubject(parseSubject(text)!)).toBe(text));
  const wrongTexts = ['', '~sigmoid', 'a b', 'softmax@x', 'softmax@-1', 'softmax@1.5', 'softmax~'];
  for (const text of [...wrongTexts, 'a~b(', 'hub:', 'hub:../x y', 'a~b(c;d)'])
    it(`is rejected: “${text}”`, () => expect(parseSubject(text)).toBeUndefined());

  it('is split from a list only at commas outside its edits, and can be toggled in it', () => {
    expect(splitSubjects('a~evict(window,24),b,,c~mask(1,2)~x')).toMatchSnapshot();
    expect(toggleSubject(['a'], 'a')).toEqual(['a']);
    expect(toggleSubject(['a', 'b'], 'a')).toEqual(['b']);
    expect(toggleSubject(['1', '2', '3', '4', '5', '6'], '7')).toHaveLength(6);
  });

  const parameter = (name: string, type: string, change: object) => ({
    ...{ name, type, required: true, default: null, meaning: '' },
    ...change,
  });
  const describe_ = {
    operations: [
      { name: 'softmax', label: 'softmax', parameters: [], features: 'none' },
      {
        name: 'sigmoid',
        label: 'sigmoid',
        features: 'none',
        parameters: [{ name: 'bias', default: 0, min: -20, max: 20, meaning: '' }],
      },
      { name: 'mlp', label: 'mlp', parameters: [], features: 'mlp' },
    ],
    edits: [
      { name: 'operation', meaning: '', parameters: [] },
      {
        name: 'evict',
        meaning: '',
        counterfactual: false,
        parameters: [
          parameter('policy', 'choice', { choices: ['window', 'h2o'] }),
          parameter('budget', 'integer', { min: 1, max: 99 }),
        ],
      },
      {
        name: 'mask',
        meaning: 'first and recent keys',
        parameters: [
          parameter('first', 'integer', { min: 0, max: 99 }),
          parameter('recent', 'integer', { default: 8, min: 1, max: 99 }),
          parameter('layer', 'index', { required: false }),
        ],
      },
    ],
  } as unknown as Describe;
  const edits = (text: string) => editsOf(parseSubject(text)!, describe_);

  it('applies its edits in their order', () => {
    expect(edits('softmax@4')).toEqual([]);
    expect(edits('softmax~sigmoid')).toEqual([{ kind: 'operation', operation: 'sigmoid' }]);
    expect(edits('softmax~sigmoid(-4.8)~mask(2)')).toEqual([
      { kind: 'operation', operation: 'sigmoid', parameters: { bias: -4.8 } },
      { kind: 'mask', first: 2, recent: 8 },
    ]);
    expect(edits('softmax~evict(window,24)')).toMatchSnapshot();
    // A parameter at the end of a row can be named, without those before it.
    expect(edits('softmax~evict(window,budget=24)~mask(first=2,recent=9)')).toEqual([
      { kind: 'evict', policy: 'window', budget: 24 },
      { kind: 'mask', first: 2, recent: 9 },
    ]);
    for (const [edit, place] of [
      ['mask(nose=2)', 'mask: .* first, recent, layer'],
      ['mask(first=)', 'mask.first: .* from 0 to 99'],
      ['evict(door,24)', 'evict.policy: .* window, h2o'],
      ['nonsense', 'edit: .* softmax, sigmoid, evict, mask'],
      ['sigmoid(99)', 'sigmoid.bias: .* from -20 to 20'],
      ['sigmoid(x)', 'sigmoid.bias: .*"x"'],
      ['softmax(1)', 'softmax: .*nothing'],
      ['mask(2,first=3)', 'mask: expected first once'],
      ['mask(first=recent=3)', 'mask.first: .*"recent=3"'],
    ]) {
      expect(() => edits(`softmax~${edit}`)).toThrow(InputError);
      expect(() => edits(`softmax~${edit}`)).toThrow(new RegExp(place!));
    }
  });

  it('keeps the default of a parameter whose place is empty', () => {
    expect(edits('softmax~mask(2,,1)')).toEqual([{ kind: 'mask', first: 2, recent: 8, layer: 1 }]);
    expect(edits('softmax~mask(,5)')).toEqual([{ kind: 'mask', first: 0, recent: 5 }]);
    for (const text of ['mask(2,,)', 'mask(2)'])
      expect(printSubject(parseSubject(`softmax~${text}`)!)).toBe('softmax~mask(2)');
    for (const text of ['mask(,)', 'mask()', 'mask'])
      expect(printSubject(parseSubject(`softmax~${text}`)!)).toBe('softmax~mask');
  });

  it('refuses an edit that a later one replaces in all its heads', () => {
    const oneOperation = 'expected one operation';
    expect(() => edits('softmax~sigmoid~softmax')).toThrow(oneOperation);
    expect(() => edits('softmax~sigmoid~mask(1,2)~sigmoid(3)')).toThrow(oneOperation);
    expect(() => edits('softmax~mask(1,2,0)~mask(1,3)')).toThrow('expected one mask');
    expect(() => edits('softmax~mask(1,2,0)~mask(1,3,0)')).toThrow('expected one mask');
    // The first mask stays that of the other layers.
    expect(edits('softmax~mask(1,2)~mask(1,3,0)~sigmoid')).toHaveLength(3);
    expect(edits('softmax~mask(1,2,0)~mask(1,3,1)')).toHaveLength(2);
  });

  it('moves to another step and keeps its edits', () => {
    expect(printSubject(atStep(parseSubject('a@4~mask(1,2)')!, undefined))).toBe('a~mask(1,2)');
  });
});

it('a parameter without bounds in the table is an index from 0 on, with default 0', () => {
  const table = { operations: [], edits: [{ name: 'hide_key', parameters: [{ name: 'key' }] }] };
  const [choice] = editChoices(table as unknown as Parameters<typeof editChoices>[0]);
  expect(choice!.parameters).toEqual([
    { name: 'key', meaning: undefined, default: 0, min: 0, max: 1e6, required: undefined },
  ]);
});

const base = new URL('../../wasm/', import.meta.url);
describe('the title of an edited model', () => {
  type Parameter = ReturnType<typeof editChoices>[number]['parameters'][number];
  const optionText = ({ name, choices, min, max }: Parameter, value: number) =>
    `${name}=${choices ? choices.at(-1)![0] : Math.min(max ?? value, Math.max(min ?? value, value))}`;

  it('is prose for every edit and every set of its parameters, never the code of the edit', async ({
    skip,
  }) => {
    skip(!isBuilt, UNBUILT);
    const engine = await createEngine({ base, worker: false });
    const table = engine.describe;
    await engine.close();
    const title = (text: string) => titleOf(parseSubject(text)!, 'Model', table);
    let count = 0;
    for (const { name, parameters: all } of editChoices(table)) {
      const required = all.filter(({ required }) => required);
      for (const options of [[], ...all.map((parameter) => [parameter]), all])
        for (const value of [0, 1, 3]) {
          const values = [...new Set([...required, ...options])].map((parameter) =>
            optionText(parameter, value),
          );
          const titleText = title(
            `softmax@1400~${name}${values.length ? `(${values.join()})` : ''}`,
          );
          expect(titleText).toMatch(/^Model at step 1,400, \S/);
          const editTitle = titleText.replace(/^Model at step 1,400, /, '');
          expect(editTitle, titleText).not.toMatch(/_|=|[{}[\]]|undefined|NaN|\(\d+\)$/);
          expect(editTitle, titleText).not.toMatch(/hide key|silence|scale value|clamp|quantize/);
          count++;
        }
    }
    expect(count).toBeGreaterThan(200);
    expect(title('softmax~hide_key(0)')).toBe('Model, first token hidden');
    expect(title('softmax~silence(1,3)~sigmoid')).toMatchSnapshot();
    // A refused edit keeps its text in the link; the error names the expected values.
    expect(title('softmax~nonsense(2)')).toBe('Model, nonsense(2)');
  });
});

it('has the defaults of the core', async ({ skip }) => {
  skip(!isBuilt, UNBUILT);
  const engine = await createEngine({ base, worker: false });
  const { eps, tokens } = engine.describe.defaults;
  await engine.close();
  expect([defaults.eps, defaults.T]).toEqual([eps, tokens]);
});
