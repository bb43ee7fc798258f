// @vitest-environment happy-dom
/**
 * Recordings with every subset of fields, in every view and room: an unknown number is a dash and a sentence. The
 * Python package wrote them (tests/record/kinds.py).
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readdirSync } from 'node:fs';
import { alphaOfKey, mean, selectedHead, type Frame } from '../src/frame';
import { hasNumbersOf, type View } from '../src/page/view';
import { build as compare } from '../src/rooms/compare';
import { build as explore } from '../src/rooms/explore';
import { readsOf, tableOf } from '../src/rooms/metrics';
import { build as figure } from '../src/rooms/figure';
import { toCsv } from '../src/save/numbers';
import { viewNamed, views } from '../src/views/index';
import { percent, show } from '../src/words';
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

/** Returns the same file without the tensors of the other groups. */
function only(bytes: Uint8Array, kept: readonly Group[]): Uint8Array {
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const { __metadata__, ...entries } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(8, 8 + size)),
  ) as Record<string, Entry>;
  const groupOf = (name: string) => ALL.find((group) => GROUPS[group].test(name));
  const named = Object.entries(entries)
    .filter(([name]) => !groupOf(name) || kept.includes(groupOf(name)!))
    .sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
  let at = 0;
  const moved = named.map(([name, entry]) => {
    const length = entry.data_offsets[1] - entry.data_offsets[0];
    return [name, { ...entry, data_offsets: [at, (at += length)] }];
  });
  const json = JSON.stringify({ __metadata__, ...Object.fromEntries(moved) });
  const head = new TextEncoder().encode(json.padEnd(Math.ceil(json.length / 8) * 8));
  const file = new Uint8Array(8 + head.length + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(head.length), true);
  file.set(head, 8);
  named.forEach(
    (
      [
        ,
        {
          data_offsets: [from, to],
        },
      ],
      i,
    ) => {
      const [, { data_offsets }] = moved[i] as [string, Entry];
      file.set(bytes.subarray(8 + size + from, 8 + size + to), 8 + head.length + data_offsets[0]);
    },
  );
  return file;
}

const subsets = ALL.reduce<Group[][]>(
  (found, group) => found.flatMap((one) => [one, [...one, group]]),
  [[]],
);
/** The recordings that are tested with every subset; the others have all groups, one group or none. */
const WHOLE = ['one', 'sink_logit'];
const subsetsOf = (name: string) =>
  subsets.filter(({ length }) => WHOLE.includes(name) || length === ALL.length || length <= 1);

const WRONG = /\bNaN|undefined|Infinity|\[object|\bnull\b/;
const DENIED = /\bNo (head|key|secondary)|none of the|None of the/;
const wrongIn = (said: readonly string[]) => said.filter((one) => WRONG.test(one));
const facts = { corpus: { kind: 'text' }, version: '1', link: '#' };
const free = { layer: -1, head: -1 };

let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  stubScreen();
  if (isBuilt) page = await openPage();
}, 60_000);
afterAll(() => page?.close());

async function frameOf(name: string, groups: readonly Group[] = ALL): Promise<Frame> {
  const bytes = only(bytesOf(`${FOLDER}${name}.safetensors`), groups);
  const more = readsOf(tableOf(page.models.describe));
  const [frame] = await page.framesOf([await page.openRecording(name, bytes)], {}, views, more);
  return frame!;
}

/** For each tensor that the view may read, lists 1 if the frame has a finite number in it, 0 if it has none, and nothing without the tensor. */
function presenceOf({ reads, optional = [], headReads = [] }: View, frame: Frame): string {
  const names = ['alpha', 'alpha_raw', 'sink_ratio', 'row_mass_summary', ...reads, ...optional];
  const all = [...names.map((name) => frame.tensors[name])].concat(
    headReads.map((name) => frame.head?.tensors[name]),
  );
  return all.map((one) => one && Number(Array.from(one.data).some(Number.isFinite))).join();
}

/** Returns the problems of a view in a widget or an embed, and of its files. */
function wrongFigure(view: View, frame: Frame): string[] {
  forgetPlots();
  const room = roomOf(figure, page.pageOf({ view: view.name }, [frame]));
  const said = wordsOf(room.root);
  const wrong = wrongIn(said);
  // Where a number is missing, no sentence may say that there is no sink.
  if (!frame.tensors.sink_ratio!.data.some(Number.isFinite))
    wrong.push(...said.filter((one) => DENIED.test(one)));
  const fits = view.fits?.(frame) ?? true;
  if (!fits || hasNumbersOf(view, frame, page.models.describe)) {
    const quantities = fits ? view.numbers(frame, selectedHead(frame, free)) : [];
    const numbers = [{ frame, quantities }];
    // The facts in the file are JSON, in which null is allowed.
    wrong.push(...wrongIn(toCsv(numbers, facts).replaceAll(':null', '').split('\n')));
    if (fits && !room.all('.cell').length) wrong.push('draws nothing');
  } else {
    const both = [room.text('[data-lacks]'), room.text('[data-finding]')];
    if (!both.every((one) => /^Not in the recording of .* needs /.test(one)))
      wrong.push(`does not say what it lacks: ${both.join(' | ')}`);
  }
  room.scope.end();
  return wrong;
}

function wrongRoom(build: typeof explore, frames: readonly Frame[], needed = '*'): string[] {
  forgetPlots();
  const room = roomOf(build, page.pageOf({}, frames));
  const wrong = wrongIn(wordsOf(room.root));
  if (!room.all(needed).length) wrong.push(`lacks ${needed}`);
  room.scope.end();
  return wrong;
}

describe.skipIf(!isBuilt)(`a recording (${UNBUILT})`, () => {
  it.each(names)(
    '%s with any subset of fields shows a dash and a sentence for each missing number',
    async (name) => {
      const wrong = new Set<string>();
      const drawn = new Set<string>();
      const [softmax] = await page.framesOf(['softmax']);
      for (const groups of subsetsOf(name)) {
        const frame = await frameOf(name, groups);
        const note = (place: string, found: readonly string[]) =>
          found.forEach((one) => wrong.add(`${groups.join(' ')}, ${place}: ${one.slice(0, 200)}`));
        for (const view of views) {
          const seen = `${view.name} ${presenceOf(view, frame)}`;
          if (!drawn.has(seen)) note(view.name, wrongFigure(view, frame));
          drawn.add(seen);
        }
        const isRoomy =
          groups.length === 0 || groups.length === ALL.length || `${groups}` === 'maps';
        if (!isRoomy) continue;
        note('Explore', wrongRoom(explore, [frame]));
        note('Compare', wrongRoom(compare, [softmax!, frame]));
        note('Compare alone', wrongRoom(compare, [frame], '.table-of-all tbody tr'));
      }
      expect([...wrong]).toEqual([]);
    },
  );

  it('names the token that counts as the first, in every view', async () => {
    const frame = await frameOf('first');
    const at = selectedHead(frame, free);
    const says = (name: string) => viewNamed(name).says(frame, at);
    const alpha = [...alphaOfKey(frame, 3)];
    const share = (eps: number) => percent(alpha.filter((one) => one > eps).length / 12, 0);
    expect(says('threshold')).toBe(
      `Of 12 heads, ${[0.1, 0.2, 0.3, 0.5].map((eps) => `${share(eps)} have α₄ > ${eps}`).join(', ')}; ` +
        'uniform attention has α₄ = 0.14.',
    );
    const { data } = frame.tensors.att!;
    const own = Array.from({ length: 12 }, (_, i) =>
      mean(Array.from({ length: 9 }, (_, t) => data[(12 * i + t + 3) * 12 + 3]!)),
    );
    expect(says('length')).toMatch(new RegExp(`T = 12: Sink₄ .*, mean α₄ ${show(mean(own))} `));
    expect(says('secondary')).toContain(
      `The first key receives ${percent(mean(alpha))} on average`,
    );
    expect(says('mass')).toContain('unnormalized α₄ ');
    expect(says('geometry')).toContain('‖k₄‖ is ');
    expect(says('likeness')).toContain(' of 8 later positions');
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
      /^These models read different texts, so their sinks are not ranked\. .*Softmax model 62\.5% \(more than 30% in one prompt, T = 26; uniform attention would give it 15%\); llama, one prompt 50\.0% \(more than 30% in one prompt, T = 12; uniform attention would give it 26%\)/,
    );
    room.scope.end();
  });

  it('of several prompts states that its map is that of the first prompt', async () => {
    const frame = await frameOf('many');
    const at = selectedHead(frame, free);
    const map = frame.head!.tensors.att!.data;
    const first = mean(Array.from({ length: 12 }, (_, t) => map[12 * t]!));
    expect(viewNamed('attention').says(frame, at)).toContain(
      `In the first of 5 prompts the first token, “<s>”, receives ${percent(first, 0)} on average`,
    );
  });
});
