// @vitest-environment happy-dom
/**
 * Recordings with every subset of fields, in every view and room: an unknown number is a dash and a sentence. The
 * Python package wrote them (tests/record/kinds.py).
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readdirSync } from 'node:fs';
import type { Conditions } from 'sinkscope';
import type { State } from '../src/ask/state';
import { alphaOfKey, mean, selectedHead, type Frame } from '../src/frame';
import { hasNumbersOf, type View } from '../src/page/view';
import { build as compare } from '../src/rooms/compare';
import { build as explore } from '../src/rooms/explore';
import { readsOf, tableOf } from '../src/rooms/metrics';
import { build as figure } from '../src/rooms/figure';
import { build as start } from '../src/rooms/start';
import { toCsv } from '../src/save/number_files';
import { viewNamed, views } from '../src/views/index';
import { obstacleOf } from '../src/rooms/compared';
import { formatPercent, formatValue } from '../src/words';
import { forgetPlots } from './drawn';
import { bytesOf, openPage, stubScreen, wordsOf } from './engine';
import { isBuilt, UNBUILT } from './fixture';
import { roomOf } from './page';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);

const FOLDER = 'tests/golden/recordings/';
const names = readdirSync(`${import.meta.dirname}/../../${FOLDER}`)
  .filter((name) => name.endsWith('.safetensors'))
  .map((name) => name.replace('.safetensors', ''));

const GROUPS = {
  maps: /^\d+\.att(_pooled|_scale)?$/,
  keys: /^\d+\.[qk]$/,
  values: /^\d+\.v$/,
  hidden: /^\d+\.hidden$/,
  exact: /^\d+\.(alpha|alpha_raw|row_mass|\w+_norm|loss|att_bias)$/,
  means: /^(mean|deviation|prompt)\./,
} as const;
type Group = keyof typeof GROUPS;
const ALL = Object.keys(GROUPS) as Group[];

interface Entry {
  readonly data_offsets: readonly [number, number];
}

/** Returns the same file without the tensors of the other groups, with other conditions. */
function withGroups(
  bytes: Uint8Array,
  kept: readonly Group[],
  change: (conditions: string) => string = String,
): Uint8Array {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const { __metadata__, ...entries } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(8, 8 + size)),
  ) as Record<string, Entry> & { readonly __metadata__: { readonly sinkscope: string } };
  const groupOf = (name: string) => ALL.find((group) => GROUPS[group].test(name));
  const namedEntries = Object.entries(entries)
    .filter(([name]) => !groupOf(name) || kept.includes(groupOf(name)!))
    .sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
  let offset = 0;
  const movedEntries = namedEntries.map(([name, entry]) => {
    const length = entry.data_offsets[1] - entry.data_offsets[0];
    return [name, { ...entry, data_offsets: [offset, (offset += length)] }];
  });
  const metadata = { ...__metadata__, sinkscope: change(__metadata__.sinkscope) };
  const json = JSON.stringify({ __metadata__: metadata, ...Object.fromEntries(movedEntries) });
  const header = new TextEncoder().encode(json.padEnd(Math.ceil(json.length / 8) * 8));
  const file = new Uint8Array(8 + header.length + offset);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  namedEntries.forEach(
    (
      [
        ,
        {
          data_offsets: [from, to],
        },
      ],
      i,
    ) => {
      const [, { data_offsets }] = movedEntries[i] as [string, Entry];
      file.set(bytes.subarray(8 + size + from, 8 + size + to), 8 + header.length + data_offsets[0]);
    },
  );
  return file;
}

const subsets = ALL.reduce<Group[][]>(
  (chosenSubsets, group) => chosenSubsets.flatMap((subset) => [subset, [...subset, group]]),
  [[]],
);
/** The recording that is tested with every subset; the others have all groups, one group or none. */
const EXHAUSTIVE = 'sink_logit';
const subsetsOf = (name: string) =>
  subsets.filter(({ length }) => name === EXHAUSTIVE || length === ALL.length || length <= 1);

const BROKEN_TEXT = /\bNaN|undefined|Infinity|\[object|\bnull\b/;
const DENIAL = /\bNo (head|key|secondary)|none of the|None of the/;
const brokenTexts = (texts: readonly string[]) => texts.filter((text) => BROKEN_TEXT.test(text));
const facts = { corpus: { kind: 'text' }, version: '1', link: '#' };
const noHead = { layer: -1, head: -1 };

let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  stubScreen();
  if (isBuilt) page = await openPage();
}, 60_000);
afterAll(() => page?.close());

async function frameOf(
  name: string,
  groups: readonly Group[] = ALL,
  change?: (conditions: string) => string,
): Promise<Frame> {
  const bytes = withGroups(bytesOf(`${FOLDER}${name}.safetensors`), groups, change);
  const more = readsOf(tableOf(page.models.describe));
  const [frame] = await page.framesOf([await page.openRecording(name, bytes)], {}, views, more);
  return frame!;
}

/** For each tensor that the view may read, lists 1 if the frame has a finite number in it, 0 if it has none, and nothing without the tensor. */
function presenceOf({ reads, optional = [], headReads = [] }: View, frame: Frame): string {
  const names = ['alpha', 'alpha_raw', 'sink_ratio', 'row_mass_summary', ...reads, ...optional];
  const tensors = [...names.map((name) => frame.tensors[name])].concat(
    headReads.map((name) => frame.head?.tensors[name]),
  );
  return tensors
    .map((tensor) => tensor && Number(Array.from(tensor.data).some(Number.isFinite)))
    .join();
}

/** Returns the problems of a view in a widget or an embed, and of its files. */
function figureErrors(view: View, frame: Frame): string[] {
  forgetPlots();
  const room = roomOf(figure, page.pageOf({ view: view.name }, [frame]));
  const texts = wordsOf(room.root);
  const errors = brokenTexts(texts);
  // Where a number is missing, no sentence may say that there is no sink.
  if (!frame.tensors.sink_ratio!.data.some(Number.isFinite))
    errors.push(...texts.filter((text) => DENIAL.test(text)));
  const fits = view.fits?.(frame) ?? true;
  if (!fits || hasNumbersOf(view, frame, page.models.describe)) {
    const quantities = fits ? view.numbers(frame, selectedHead(frame, noHead)) : [];
    const numbers = [{ frame, quantities }];
    // The facts in the file are JSON, in which null is allowed.
    errors.push(...brokenTexts(toCsv(numbers, facts).replaceAll(':null', '').split('\n')));
    if (fits && !room.all('.cell').length) errors.push('draws nothing');
  } else {
    const notes = [room.text('[data-lacks]'), room.text('[data-finding]')];
    if (!notes.every((note) => /^Not in the recording of .* needs /.test(note)))
      errors.push(`does not say what it lacks: ${notes.join(' | ')}`);
  }
  room.scope.end();
  return errors;
}

function roomErrors(
  build: typeof explore,
  frames: readonly Frame[],
  needed = '*',
  change: Parameters<typeof page.pageOf>[0] = {},
): string[] {
  forgetPlots();
  const room = roomOf(build, page.pageOf(change, frames));
  const errors = brokenTexts(wordsOf(room.root));
  if (!room.all(needed).length) errors.push(`lacks ${needed}`);
  room.scope.end();
  return errors;
}

describe.skipIf(!isBuilt)(`a recording (${UNBUILT})`, () => {
  it('of generated text marks the tokens that the model generated', async () => {
    const frame = await frameOf('generated');
    expect([frame.T, frame.generated]).toEqual([12, 5]);
    const room = roomOf(explore, page.pageOf({}, [frame]));
    const chips = room.all('.chip');
    expect(chips.map((chip) => chip.classList.contains('made'))).toEqual([
      ...Array<boolean>(7).fill(false),
      ...Array<boolean>(5).fill(true),
    ]);
    expect(chips.at(-1)!.title).toMatch(/^position 11, id \d+, generated$/);
    expect(room.text('.generate summary')).toBe('5 generated tokens');
    expect(room.text('.generated strong')).toBe('door, and looked.');
    room.scope.end();
  });

  it.each(names)(
    '%s with any subset of fields shows a dash and a sentence for each missing number',
    async (name) => {
      const errors = new Set<string>();
      const drawnFigures = new Set<string>();
      const [softmax] = await page.framesOf(['softmax']);
      for (const groups of subsetsOf(name)) {
        const frame = await frameOf(name, groups);
        const addErrors = (place: string, placeErrors: readonly string[]) =>
          placeErrors.forEach((error) =>
            errors.add(`${groups.join(' ')}, ${place}: ${error.slice(0, 200)}`),
          );
        for (const view of views) {
          const figureKey = `${view.name} ${presenceOf(view, frame)}`;
          if (!drawnFigures.has(figureKey)) addErrors(view.name, figureErrors(view, frame));
          drawnFigures.add(figureKey);
        }
        // A room shows a recording with all numbers, and with none or maps alone by turns.
        const least = names.indexOf(name) % 2 ? 'maps' : '';
        if (groups.length < ALL.length && `${groups}` !== least) continue;
        addErrors('Explore', roomErrors(explore, [frame]));
        addErrors('Compare', roomErrors(compare, [softmax!, frame]));
        const panel = { panel: 'numbers' } as const;
        addErrors('Compare alone', roomErrors(compare, [frame], '.table-of-all tbody tr', panel));
      }
      expect([...errors]).toEqual([]);
    },
  );

  it('shows the beginning of a text of 300,000 characters, and saves the whole', async () => {
    const long = 'x'.repeat(300_000);
    const lengthen = (conditions: string) => {
      const { model, tokens, prompts, versions, ...others } = JSON.parse(conditions) as Conditions;
      const lengthened = {
        model: { ...model, id: `${model.id}${long}`, revision: long, family: long, dtype: long },
        first: { token: `<s>${long}`, id: 1, position: 0 },
        tokens: tokens.map((texts) => texts.map((text) => `${text}${long}`)),
        prompts: { ...prompts, source: long },
        ...{ versions: { ...versions, [long]: long }, license: long, command: long },
        edits: [{ kind: 'hide_key', label: long }],
      };
      return JSON.stringify({ ...others, ...lengthened });
    };
    const frame = await frameOf('one', ALL, lengthen);
    expect(frame.tokens[1]!.text).toHaveLength(300_004);
    const shown: Record<string, number> = {};
    const count = (place: string, build: typeof explore, change: Partial<State> = {}) => {
      forgetPlots();
      const room = roomOf(build, page.pageOf({ query: 2, key: 1, ...change }, [frame]));
      const texts = wordsOf(room.root);
      const length = texts.reduce((sum, text) => sum + text.length, 0);
      if (length > 60_000) shown[place] = length;
      room.scope.end();
    };
    for (const { name } of views) count(name, figure, { view: name });
    count('Explore', explore);
    count('Compare', compare);
    count('Start', start);
    expect(shown).toEqual({});
    const { numbers } = viewNamed('attention');
    const at = selectedHead(frame, noHead);
    const csv = toCsv([{ frame, quantities: numbers(frame, at) }], facts);
    expect(csv).toContain(` the${long}`);
  });

  it('names the token that counts as the first, in every view', async () => {
    const frame = await frameOf('first');
    const at = selectedHead(frame, noHead);
    const sentenceOf = (name: string) => viewNamed(name).says(frame, at);
    const alpha = [...alphaOfKey(frame, 3)];
    const shareAbove = (eps: number) =>
      formatPercent(alpha.filter((weight) => weight > eps).length / 12, 0);
    expect(sentenceOf('threshold')).toBe(
      `Of 12 heads, ${[0.1, 0.2, 0.3, 0.5].map((eps) => `${shareAbove(eps)} have mean α₄ > ${eps}`).join(', ')}; ` +
        'uniform attention has α₄ = 0.14.',
    );
    const { data } = frame.tensors.att!;
    const headMeans = Array.from({ length: 12 }, (_, i) =>
      mean(Array.from({ length: 9 }, (_, t) => data[(12 * i + t + 3) * 12 + 3]!)),
    );
    expect(sentenceOf('length')).toMatch(
      new RegExp(`T = 12: Sink₄ .*, mean α₄ ${formatValue(mean(headMeans))} `),
    );
    expect(sentenceOf('mass')).toContain('unnormalized α₄ ');
    expect(sentenceOf('geometry')).toContain('‖k₄‖ is ');
    expect(sentenceOf('likeness')).toContain(' of 8 later positions');
    // The recording's text still begins with a start token.
    expect(frame.first).toEqual(['<s>']);
  });

  it('names layers by the layer numbers of the model', async () => {
    const frame = await frameOf('hybrid');
    expect(frame.architecture).toMatchObject({ L: 2, blocks: 4, layers: [1, 3] });
    const room = roomOf(explore, page.pageOf({ layer: 3, head: 2 }, [frame]));
    expect(room.root.textContent).toMatch(/In layer 3, head 2 \(L3H2\)/);
    expect(room.root.textContent).not.toMatch(/L1H2|Layer 1/);
    room.scope.end();
  });

  it('is not ranked with a model that read another text', async () => {
    const [softmax] = await page.framesOf(['softmax']);
    const room = roomOf(compare, page.pageOf({}, [softmax!, await frameOf('one')]));
    expect(room.text('[data-finding]')).toMatch(
      /These models read different texts, so their sinks are not ranked\./,
    );
    expect(room.texts('.model .count')).toEqual(['15/24', '6/12']);
    room.scope.end();
  });

  it('is not ranked with another one of which no prompt is kept, unless the hashes are equal', async () => {
    const frame = await frameOf('one');
    const withoutPrompt = (id: string, sha256: string) => {
      const prompts = { ...frame.recording!.prompts, sha256 };
      return { ...frame, title: id, tokens: [], recording: { ...frame.recording!, prompts } };
    };
    const words = (sha256: string) =>
      obstacleOf([withoutPrompt('a', 'ab'), withoutPrompt('b', sha256)]);
    expect(words('cd')).toMatch(/^These models read different texts/);
    expect(words('ab')).not.toMatch(/different texts/);
  });

  it('of several prompts states that its map is that of the first prompt', async () => {
    const frame = await frameOf('many');
    const at = selectedHead(frame, noHead);
    const map = frame.head!.tensors.att!.data;
    const firstMean = mean(Array.from({ length: 12 }, (_, t) => map[12 * t]!));
    expect(viewNamed('attention').says(frame, at)).toMatch(
      RegExp(`In the first of 5 prompts, .*${formatPercent(firstMean, 0)}`),
    );
  });
});
