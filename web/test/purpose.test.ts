// @vitest-environment happy-dom
/** Why it matters, as a room and as a figure: its requested settings, its sentences, and its controls. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { State } from '../src/ask/state';
import { build as figure } from '../src/experiments/bench';
import type { Frame } from '../src/frame';
import { build } from '../src/rooms/purpose';
import type { Study } from '../src/run/request';
import type { ChartData } from '../src/plot/chart';
import { chartsIn } from './drawn';
import { frameOf, tensor } from './fixture';
import { pageOf, roomOf } from './page';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('matchMedia', () => ({ matches: true }));
});
afterEach(() => vi.useRealTimers());

const EDITS = {
  '~evict(window,24)': { kind: 'evict', policy: 'window', budget: 24 },
  '~evict(first,24,1)': { kind: 'evict', policy: 'first', budget: 24, first: 1 },
};
const LOSSES = { '': 2, '~evict(window,24)': 3, '~evict(first,24,1)': 2.25 };
const headWithMap = {
  layer: 1,
  head: 0,
  // Every row gives all of its attention to the first token.
  tensors: {
    att: tensor(
      [40, 40],
      Float32Array.from({ length: 1600 }, (_, i) => Number(i % 40 === 0)),
    ),
  },
};
const names = { softmax: 'Softmax model', sigmoid: 'Sigmoid model' } as Record<string, string>;

function frameFor(subject: string, change: Partial<Frame> = {}): Frame {
  const [, model = '', edit = ''] = /^(\w+)(.*)$/.exec(subject)!;
  const loss = LOSSES[edit as keyof typeof LOSSES] ?? 9;
  const evictEdit = EDITS[edit as keyof typeof EDITS];
  return frameOf(
    {
      ...{ subject, title: `${names[model]} ${edit}`, head: headWithMap, T: 40 },
      model: { id: model, title: names[model], source: 'zoo' },
      perPrompt: { loss_mean: [loss, loss] },
      ...(evictEdit ? { edits: [evictEdit], labels: ['x'], choices: [evictEdit] } : {}),
      ...change,
    } as never,
    {
      loss_mean: tensor([1], [loss]),
      loss_at: tensor(
        [40],
        Float32Array.from({ length: 40 }, (_, t) => (t ? loss : NaN)),
      ),
      evicted: tensor([1], [0]),
    },
  );
}

const describe_ = {
  ...{ version: '', operations: [], metrics: [], fields: [], letters: {} },
  edits: [
    {
      name: 'quantize',
      parameters: [
        { name: 'by', choices: ['token', 'tensor', 'channel'], labels: ['a', 'b', 'c'] },
      ],
    },
  ],
};

function createRoom(
  change: Partial<State> = {},
  known: (study: Study) => object | undefined = ({ subject }) => ({ frame: frameFor(subject) }),
  isEmbed = false,
) {
  const shown = ['softmax', 'sigmoid'];
  const choices = shown.map((id) => ({ id, title: names[id], source: 'zoo' }));
  const frames = ['softmax', 'sigmoid']
    .flatMap((id) => [`${id}~evict(window,24)`, `${id}~evict(first,24,1)`])
    .map((subject) => frameFor(subject));
  const page = pageOf({ shown, experiment: 'streaming', ...change }, frames, {
    models: { choices, describe: describe_ },
    queue: { studyEntry: known },
    facts: (more: object) => ({ ...more }),
  });
  const builtRoom = roomOf(
    (...parameters) => (isEmbed ? figure(...parameters, true) : build(...parameters)),
    page,
  );
  return { ...builtRoom, studies: () => page.asked().studies as (Study & { turn: number })[] };
}

describe('the room', () => {
  it('requests the settings of each model on the prompts of the room, those of its sentence first', () => {
    const { studies, asked } = createRoom({ length: 120, runs: 5, T: 64, n: 1, source: 'random' });
    expect(studies().map(({ subject, turn }) => `${turn} ${subject}`)).toEqual([
      ...['0 softmax', '0 softmax~evict(window,24)', '0 softmax~evict(first,24,1)'],
      ...['0 sigmoid', '0 sigmoid~evict(window,24)', '0 sigmoid~evict(first,24,1)'],
    ]);
    expect(studies()[0]).toMatchObject({
      question: { T: 120, n: 5, input: 'random' },
      measures: ['loss_at', 'loss_mean', 'sink_ratio', 'sink_ratio_raw'],
    });
    expect(asked()).toMatchObject({
      // The unedited model is run as well: its strongest head is shown in all settings.
      subjects: ['softmax', 'softmax~evict(window,24)', 'softmax~evict(first,24,1)'],
      question: { T: 120, n: 1 },
    });
    // The map has at most 256 tokens, since the cells of a larger one would be invisible.
    expect(createRoom({ length: 4000 }).asked().question.T).toBe(256);
    // The queue alternates between the models in a long list of settings.
    const sweep = createRoom({ experiment: 'quantization', sweep: 'all' });
    const turns = sweep.studies().map(({ turn }) => turn);
    expect(turns).toEqual([...turns].sort((a, b) => a - b));
    expect(Math.max(...turns)).toBeGreaterThan(1);
    expect(turns.filter((turn) => turn === 1)).toHaveLength(16);
    expect(sweep.asked().subjects).toEqual([
      'softmax',
      ...['softmax~quantize(hidden,6,tensor)', 'softmax~quantize(hidden,6,tensor,first=1)'],
    ]);
  });

  it('gives the results of the settings in a sentence, a chart and a table', async () => {
    const room = createRoom();
    expect(room.text('.room-head h2')).toBe('Forget old words, but keep <s>: 28% worse, not 172%');
    expect(room.text('.lead')).toBe(
      'The softmax model shows the same; its first token is <s>, the start token. It keeps 24 tokens. Worse: perplexity rises, over the whole text.',
    );
    expect(room.texts('.experiment-notes p')).toEqual([
      'The sigmoid model loses about as much: last 24 tokens both 172% worse.',
    ]);
    // The curves are above that of all keys, which is 0.
    const [{ series, yLabel }] = chartsIn(room.root) as [ChartData];
    expect([yLabel, ...series.map(({ name, values }) => [name, values[20]])]).toEqual([
      'worse: rise of perplexity, smoothed',
      ['all tokens', 0],
      ['last 24 tokens', 1],
      ['first 1 + last 23', 0.25],
    ]);
    expect(room.all('.figure').map(({ dataset }) => dataset.view)).toEqual(['loss', 'attention']);
    expect(room.texts('table.settings tbody tr th')).toEqual(['Softmax model', 'Sigmoid model']);
    expect(room.texts('table.settings tbody td:nth-child(4)')).toEqual([
      ...['–', '+1.000 ± 0.000', '+0.250 ± 0.000', '–', '+1.000 ± 0.000', '+0.250 ± 0.000'],
    ]);
    expect(room.root.className).toBe('awaited');
    await vi.advanceTimersByTimeAsync(20);
    expect(room.root.className).toBe('');
  });

  it('says of a masked model that no experiment applies, and measures it no further', () => {
    const masked = (study: Study) => {
      const { subject } = study;
      const { architecture } = frameOf();
      const mask = subject.startsWith('sigmoid') ? { kind: 'bidirectional' } : architecture.mask;
      const edited = { error: 'it evicts no keys' };
      const frame = frameFor(subject, { architecture: { ...architecture, mask } } as never);
      return subject.startsWith('sigmoid~') ? edited : { frame };
    };
    const sentence =
      'Sigmoid model predicts no next token, so this experiment, which compares losses of the next token, does not apply to it.';
    for (const experiment of ['streaming', 'cache', 'quantization', 'fragility'] as const) {
      const change = { experiment, shown: ['sigmoid'], perturbation: 'repeat' } as const;
      const room = createRoom(change, masked);
      expect(room.text('.lead')).toBe(sentence);
      expect(room.all('table.settings, .trouble')).toEqual([]);
      expect(room.studies().map(({ subject }) => subject)).toEqual(['sigmoid']);
      expect(room.asked().subjects).toEqual(['sigmoid']);
    }
    const room = createRoom({}, masked);
    expect(room.text('.room-head h2')).toBe('Forget old words, but keep <s>: 28% worse, not 172%');
    expect(room.text('.lead')).toMatch(/^.*shows the same.*\. Sigmoid model/);
    expect(room.texts('table.settings tbody tr th')).toEqual(['Softmax model']);
    // The run that told this is no result of an experiment with other settings.
    let isAnswered = true;
    const waiting = createRoom({ shown: ['sigmoid'] }, (study) =>
      isAnswered ? masked(study) : undefined,
    );
    isAnswered = false;
    waiting.state.value = { ...waiting.state.value, recentKeys: 9 };
    expect(waiting.text('.lead')).toBe('Measuring …');
    expect(waiting.all('table.settings')).toEqual([]);
  });

  it('lets the reader choose an experiment, the shown model, and the compared models', () => {
    const room = createRoom({ shown: ['softmax~silence(1,0)', 'softmax', 'sigmoid'] });
    expect(room.pressed('.experiments button')).toMatchSnapshot();
    expect(room.texts('.chosen')).toEqual(['Softmax model', 'Sigmoid model']);
    expect(room.pressed('.chosen')).toEqual(['Softmax model']);
    room.all('.chosen')[1]!.click();
    expect(room.state.value).toMatchObject({
      shown: ['softmax', 'sigmoid'],
      at: 1,
      layer: -1,
      head: -1,
    });
    expect([room.pressed('.chosen'), room.asked().subjects]).toEqual([
      ['Sigmoid model'],
      ['sigmoid', 'sigmoid~evict(window,24)', 'sigmoid~evict(first,24,1)'],
    ]);
    room.click('Remove Sigmoid model');
    expect(room.state.value).toMatchObject({ shown: ['softmax'], at: 0 });
    room.state.value = { ...room.state.value, at: 9 };
    expect(room.pressed('.chosen')).toEqual(['Softmax model']);
    room.all('.experiments button')[2]!.click();
    expect(room.state.value).toMatchObject({
      experiment: 'quantization',
      measure: 'loss',
      sweep: 'some',
    });
    expect(room.all('.figure').map(({ dataset }) => dataset.view)).not.toContain('loss');
    room.click('Embed this experiment');
    expect(room.calls.embed).toHaveBeenCalledWith('experiment', room.context, {
      shown: ['softmax'],
    });
  });

  it('exports each figure with its subjects, prompts and length', () => {
    const linkedRoom = (change: Partial<State> = {}) => {
      const room = createRoom({ length: 120, source: 'random', T: 64, runs: 10, n: 9, ...change });
      return room.all('.figure .code').map((button) => {
        button.click();
        const { state, facts } = room.calls.embed.mock.lastCall![1];
        const { shown, n, at, T, hide } = state.value;
        return { shown, n, at, T, hide, facts: facts({ more: 1 }) };
      });
    };
    const facts = { input: 'random', T: 120, more: 1 };
    const settings = ['', '~evict(window,24)', '~evict(first,24,1)'];
    const subjects = ['softmax', 'sigmoid'].flatMap((base) =>
      settings.map((edits) => base + edits),
    );
    const mapSubjects = subjects.slice(1, 3);
    expect(linkedRoom()).toEqual([
      { shown: subjects, n: 10, at: 0, T: 120, hide: [], facts },
      { shown: mapSubjects, n: 1, at: 0, T: 120, hide: [], facts },
    ]);
    // On another site the run of a long text is not kept for later views, so the map is of no more tokens than can be
    // visible.
    const [chart, map] = linkedRoom({ length: 513, at: 1 });
    expect([chart!.hide, chart!.T, map!.T, map!.at, map!.shown]).toEqual([
      ...[['links'], 513, 256, 0],
      subjects.slice(4, 6),
    ]);
    expect(linkedRoom({ length: 512 })[0]!.hide).toEqual([]);
  });

  it('states the unit of the prompts, and warns if fewer tokens ran than requested', () => {
    const question = { ...frameOf().question, input: 'heldout' };
    const roomOfHeldOut = (T: (subject: string) => number, more: Partial<State> = {}) =>
      createRoom({ source: 'heldout', length: 50, ...more }, ({ subject }) => ({
        frame: frameFor(subject, { T: T(subject), question: question as never, sequences: 40 }),
      }));
    const { text, enter, state, all } = roomOfHeldOut(() => 50);
    expect(text('.question-controls > .hint')).toBe('40 prompts; means ± standard deviation.');
    expect(roomOfHeldOut(() => 40).text('.question-controls > .hint')).toMatch(
      /^Only 40 tokens ran: the texts or the context are no longer\. 40 prompts/,
    );
    expect(
      roomOfHeldOut((subject) => (subject.includes('~') ? 50 : 40)).text(
        '.question-controls > .hint',
      ),
    ).toMatch(/^Only 40 tokens ran without eviction: /);
    expect(createRoom().text('.question-controls > .hint')).toBe('1 prompt.');
    expect(createRoom({}, () => undefined).text('.question-controls > .hint')).toBe('');
    // The field above the figures is empty until its text is what runs.
    const written = () => (all('textarea') as HTMLTextAreaElement[]).map(({ value }) => value);
    expect(written()).toEqual(['']);
    enter('[aria-label="prompts from"]', 'text');
    expect(written()).toEqual([state.value.prompt]);
    enter('textarea', 'My own.', 'input');
    expect(state.value).toMatchObject({ prompt: 'My own.', source: 'text' });
    enter('textarea', '', 'input');
    expect([state.value.source, written()]).toEqual(['heldout', ['']]);
    enter('[aria-label="tokens ≤"]', '7');
    expect(state.value.length).toBe(8);
    enter('[aria-label="tokens ≤"]', '65537');
    expect(state.value.length).toBe(65536);
    enter('[aria-label="prompts ≤"]', '0');
    expect(state.value.runs).toBe(1);
    enter('[aria-label="prompts ≤"]', '1001');
    expect(state.value.runs).toBe(1000);
    state.value = { ...state.value, source: 'file' };
    expect(all('input[type=file]')).toHaveLength(1);
  });

  it('keeps the sentences of the last settings until new ones are measured, and compares no model of others with them', () => {
    const ready = new Set(['']);
    const room = createRoom({}, ({ subject }) => {
      const [id = '', edits = ''] = subject.split('~');
      const isReady = !/,64|,65/.test(edits) || ready.has(id);
      return isReady ? { frame: frameFor(subject.replace(/,6[45]/, ',24')) } : undefined;
    });
    const told = () => room.texts('.room-head h2, .lead, .experiment-notes p');
    const before = told();
    expect(before.join(' ')).toMatch(/keeps 24 tokens.*The sigmoid model loses/);
    room.state.value = { ...room.state.value, recentKeys: 63 };
    expect(told()).toEqual(before);
    ready.add('softmax');
    room.state.value = { ...room.state.value, eps: 0.31 };
    expect(told().join(' ')).toMatch(/keeps 64 tokens/);
    expect(told().join(' ')).not.toMatch(/sigmoid/);
    ready.add('sigmoid');
    room.state.value = { ...room.state.value, eps: 0.32 };
    expect(told().join(' ')).toMatch(/keeps 64 tokens.*The sigmoid model loses/);
  });

  it('keeps the last complete figure of a model until the next figure has more settings', () => {
    let readyCount = Infinity;
    const room = createRoom({}, ({ subject, question }) => {
      const isNew = question.T === 99;
      const at = Object.keys(LOSSES).indexOf(subject.replace(/^\w+/, ''));
      return isNew && at >= readyCount
        ? undefined
        : { frame: frameFor(subject, { T: isNew ? 33 : 40 }) };
    });
    const rows = () => room.all('table.settings tbody tr').length;
    expect(rows()).toBe(6);
    readyCount = 1;
    room.state.value = { ...room.state.value, length: 99 };
    expect(rows()).toBe(6);
    expect(room.all('.experiment-picture .cell.stale').length).toBeGreaterThan(0);
    readyCount = 3;
    room.state.value = { ...room.state.value, eps: 0.31 };
    expect(room.all('.experiment-picture .cell.stale')).toEqual([]);
    // A figure of more than three settings is kept as well, until the last result arrives.
    const missingSubjects = new Set<string>();
    const sweep = createRoom({ shown: ['softmax'], experiment: 'quantization' }, ({ subject }) =>
      missingSubjects.has(subject) ? undefined : { frame: frameFor(subject) },
    );
    const subjects = sweep.studies().map(({ subject }) => subject);
    expect(subjects.length).toBeGreaterThan(3);
    missingSubjects.add(subjects.at(-1)!);
    sweep.state.value = { ...sweep.state.value, eps: 0.31 };
    expect(sweep.all('.experiment-picture .cell.stale').length).toBeGreaterThan(0);
    missingSubjects.clear();
    sweep.state.value = { ...sweep.state.value, eps: 0.32 };
    expect(sweep.all('.experiment-picture .cell.stale')).toEqual([]);
    const streamingRoom = createRoom({ shown: ['softmax'] }, ({ subject }) =>
      subject.includes('quantize') ? undefined : { frame: frameFor(subject) },
    );
    expect(streamingRoom.all('.experiment-picture .cell')).not.toEqual([]);
    streamingRoom.state.value = { ...streamingRoom.state.value, experiment: 'quantization' };
    expect(streamingRoom.all('.experiment-picture .cell.stale')).toEqual([]);
    expect(
      createRoom({}, ({ subject }) =>
        subject === 'softmax' ? { frame: frameFor(subject) } : undefined,
      ).texts('table.settings tbody th'),
    ).toEqual(['Softmax model']);
  });

  it('shows the maps of its experiment beside the chart', () => {
    const room = createRoom({ shown: ['softmax'], experiment: 'cache' });
    const views = () => room.all('.figure').map(({ dataset }) => dataset.view);
    expect(views()).toEqual(['sweep', 'attention']);
    room.state.value = { ...room.state.value, experiment: 'fragility' };
    expect(views()).toEqual(['likeness', 'attention']);
    expect(room.asked()).toMatchObject({
      subjects: ['softmax'],
      question: { input: 'repeat', repeatedToken: 'first' },
    });
    expect(room.asked().reads).toContain('hidden');
  });

  it('reports each reason of a failure once', () => {
    const room = createRoom({}, ({ subject }) => ({
      error: subject.startsWith('sig') ? 'out of memory' : 'too long',
    }));
    expect(room.texts('.trouble p')).toMatchSnapshot();
    expect(room.text('.lead')).toBe('');
    const singleRoom = createRoom({ shown: ['softmax'] }, ({ subject }) =>
      subject === 'softmax' ? { frame: frameFor(subject) } : { error: 'too long' },
    );
    expect(singleRoom.text('.trouble p')).toMatch(/too long. The last good result is shown\./);
    room.click('Try again');
    expect(room.queue.retry).toHaveBeenCalled();
    expect(createRoom({}, () => undefined).text('.lead')).toBe('Measuring …');
  });
});

describe('the figure', () => {
  it('has the sentence, the chart, the controls and a link to the page, but no choices of its host', () => {
    const room = createRoom({}, undefined, true);
    expect(room.text('h2')).toBe('Forget old words, but keep <s>: 28% worse, not 172%');
    expect(room.all('h1, .experiments, .subject-list, .question-controls, table.settings')).toEqual(
      [],
    );
    expect(room.all('.figure').map(({ dataset }) => dataset.view)).toEqual(['loss']);
    expect(room.all('.experiment-controls input').length).toBeGreaterThan(0);
    const link = room.all<HTMLAnchorElement>('.figure-foot a')[0]!;
    expect([link.textContent!.trim(), link.getAttribute('href'), link.target]).toEqual([
      'Open in Sinkscope',
      '#{"room":"purpose"}',
      '_blank',
    ]);
    expect(room.asked().subjects).toEqual([]);
  });

  it('reports each answer once, when all of its settings are measured', () => {
    const results: { says: string; results: { subject: string; measured: object }[] }[] = [];
    let isReady = false;
    const listen = ({ detail }: Event & { detail?: never }) => results.push(detail!);
    document.body.addEventListener('ended', listen as never);
    const room = createRoom(
      {},
      ({ subject }) =>
        isReady || subject === 'softmax' ? { frame: frameFor(subject) } : undefined,
      true,
    );
    expect(results).toEqual([]);
    isReady = true;
    room.state.value = { ...room.state.value, eps: 0.31 };
    room.state.value = { ...room.state.value, eps: 0.32 };
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({
      view: 'experiment',
      says: expect.stringMatching(/keeps 24 tokens/),
    });
    expect(results[0]!.results).toHaveLength(6);
    expect(results[0]!.results[1]).toEqual({
      ...{
        subject: 'softmax~evict(window,24)',
        title: 'Softmax model ~evict(window,24)',
        sequences: 1,
      },
      measured: { loss_mean: 3, evicted: 0 },
    });
    document.body.removeEventListener('ended', listen as never);
  });
});
