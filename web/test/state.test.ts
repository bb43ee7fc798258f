import { describe, expect, it } from 'vitest';
import {
  createStore,
  defaults,
  parseHash,
  printHash,
  PROMPT_MAX,
  table,
  type State,
} from '../src/state';

const changed: Partial<State> = {
  input: 'repeat',
  prompt: 'A “quoted” line,\nand 漢字 & 😀 #=&',
  seed: 7,
  bos: false,
  first: '</s>',
  T: 12,
  eps: 0.25,
  n: 9,
  a: 'hub:owner/name@refs/pr/1:a-b.gguf',
  b: '',
  step: 1400,
  swapA: 'softmax1',
  swapB: 'sink_logit',
  paramA: -1.5,
  paramB: 2,
  layer: 3,
  head: 1,
  query: 5,
  key: 0,
  scale: 'root',
  temperature: 1.5,
  topK: 3,
  masked: 9,
  denoise: 4,
  compare: ['softmax', 'hub:owner/name@step1000', 'softmax~sigmoid=-4.5'],
  corpus: 'random',
  prompts: 20,
  theme: 'dark',
  view: 'geometry',
  hide: ['prompt', 'how'],
};

describe('the state in a link', () => {
  it('writes nothing but what differs from the defaults', () => {
    expect(printHash(defaults)).toBe('');
    expect(printHash({ ...defaults, T: 32 })).toBe('T=32');
  });

  it('has an example of every row here, so that a new row is tested', () => {
    expect(Object.keys(changed).sort()).toEqual(Object.keys(table).sort());
  });

  it('restores every row', () => {
    const link = printHash({ ...defaults, ...changed });
    expect(parseHash(`#${link}`)).toEqual({ state: { ...defaults, ...changed }, problems: [] });
  });

  const hostile: Record<string, string> = {
    'an unknown key': '#wat=1',
    'a key of every object': '#__proto__=1&constructor=2&toString=3',
    'a number with an exponent': '#T=1e99',
    'not a number': '#eps=NaN',
    'a negative count': '#n=-5',
    'half a layer': '#layer=1.5',
    'a path': '#a=../../etc/passwd',
    markup: '#swapA=<script>alert(1)</script>',
    'broken escapes': '#view=%ff%',
    'an empty number': '#T=',
    'a word that is no choice': '#theme=blue',
    'picks with a break': '#compare=softmax%0Asigmoid',
    'a prompt that is too long': `#prompt=${'x'.repeat(PROMPT_MAX + 1)}`,
    megabytes: `#prompt=${'x'.repeat(3_000_000)}`,
  };
  for (const [name, hash] of Object.entries(hostile))
    it(`keeps the default and says why: ${name}`, () => {
      const { state, problems } = parseHash(hash);
      expect(state).toEqual(defaults);
      expect(problems.length).toBeGreaterThan(0);
      for (const problem of problems) expect(problem.length).toBeLessThan(200);
    });

  it('takes the good keys beside a bad one', () => {
    const { state, problems } = parseHash('#T=1e99&eps=0.5&hide=prompt,chips');
    expect(state).toEqual({ ...defaults, eps: 0.5, hide: ['prompt', 'chips'] });
    expect(problems).toHaveLength(1);
  });

  it('says at most five problems', () => {
    const hash = Array.from({ length: 50 }, (_, i) => `x${i}=1`).join('&');
    expect(parseHash(hash).problems).toHaveLength(5);
  });
});

describe('the store', () => {
  it('tells listeners what changed, and nothing when nothing did', () => {
    const store = createStore(defaults);
    const seen: [number, number][] = [];
    const stop = store.subscribe((now, before) => seen.push([now.T, before.T]));
    store.set({ T: 10 });
    store.set({ T: 10 });
    store.set({ paramA: NaN });
    stop();
    store.set({ T: 11 });
    expect(seen).toEqual([[10, 64]]);
    expect(store.get().T).toBe(11);
  });
});
