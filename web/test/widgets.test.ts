// @vitest-environment happy-dom
/** A reader's actions in a lesson: guessing, opening heads, setting one row of attention, and generating text. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import '../src/learn/row_toy';
import { HeadCount } from '../src/learn/count';
import { askForGuess } from '../src/learn/predict';
import '../src/learn/write_toy';
import { PATIENCE } from './fixture';
import { readOf } from './page';

const borrowing = vi.hoisted(() => ({ borrowModels: vi.fn(), returnModels: vi.fn() }));
vi.mock('../src/embed/live', () => borrowing);
const writing = vi.hoisted(() => ({ promptOf: vi.fn(), continuePrompt: vi.fn() }));
vi.mock('../src/run/writing', async (load) => ({ ...(await load<object>()), ...writing }));

beforeEach(() => document.body.replaceChildren());
const render = (markup: string) => {
  document.body.innerHTML = markup;
  return readOf(document.body);
};

describe('a question of a lesson', () => {
  const answer = '<details><summary>Answer</summary><output data-answers>15</output> do.</details>';
  const onVerdict = vi.fn();
  beforeEach(() => localStorage.clear());
  const renderQuestion = (data: string) => {
    const reader = render(
      `<section class="predict"></section><section class="predict" ${data}><p class="predict-question">How many?</p>${answer}</section>`,
    );
    const [, section] = reader.all('.predict');
    askForGuess(section!, 'a-lesson', 1, onVerdict);
    const details = reader.all<HTMLDetailsElement>('details')[0]!;
    return {
      ...{ ...reader, details },
      send: () => reader.all('form')[0]!.dispatchEvent(new Event('submit', { cancelable: true })),
      seen: () =>
        ['form', '.predict-guess', 'details'].filter(
          (selector) => !reader.all(selector)[0]!.hidden,
        ),
    };
  };

  it('shows its answer after a guess by a slider, with its unit', () => {
    const { all, text, enter, seen, send, details } = renderQuestion(
      'data-min="0" data-max="25" data-unit="%"',
    );
    expect(seen()).toEqual(['form']);
    const [range] = all<HTMLInputElement>('input');
    expect([
      range!.min,
      range!.max,
      range!.getAttribute('value'),
      text('output'),
    ]).toMatchSnapshot();
    expect(text('label .unseen')).toBe('Your guess, from 0 to 25');
    expect([
      all('form')[0]!.getAttribute('aria-labelledby'),
      all('.predict-question')[0]!.id,
    ]).toEqual([...['question-1', 'question-1']]);
    enter('input', '20', 'input');
    expect(text('output')).toBe('20%');
    expect(send()).toBe(false);
    expect([seen(), text('.predict-guess')]).toMatchSnapshot();
    expect([details.open, document.activeElement]).toEqual([true, all('summary')[0]]);
    expect(onVerdict).toHaveBeenCalled();
    const secondQuestion = renderQuestion('data-min="0" data-max="25" data-unit="%"');
    expect(secondQuestion.seen()).toEqual(['.predict-guess', 'details']);
    expect(secondQuestion.text('.predict-guess')).toMatch(/^Your guess: 20%\. Wrong/);
  });

  it('has a slider from 0 to 100 by default, or buttons', () => {
    const { all } = renderQuestion('');
    expect(all<HTMLInputElement>('input').map(({ min, max }) => [min, max])).toMatchSnapshot();
    expect(all<HTMLInputElement>('input')[0]!.getAttribute('value')).toBe('50');
    const choiceQuestion = renderQuestion(
      'data-choices="It rises|It falls" data-answer="It rises" data-unit="%"',
    );
    expect(choiceQuestion.texts('label')).toEqual(['It rises', 'It falls']);
    const radios = choiceQuestion.all<HTMLInputElement>('input');
    expect(radios.map(({ type, required }) => [type, required])).toMatchSnapshot();
    radios[1]!.checked = true;
    choiceQuestion.send();
    expect(choiceQuestion.text('.predict-guess')).toMatchSnapshot();
  });
});

it('the count of opened heads includes how many of them have a sink', () => {
  const { text, all } = render('<p class="head-count"></p>');
  const headCount = new HeadCount(all('p')[0]!);
  const scores = [
    { layer: 0, head: 0, alpha: 0.9 },
    { layer: 0, head: 1, alpha: 0.25 },
    { layer: 1, head: 0, alpha: 0.26 },
  ];
  expect(text('p')).toMatchSnapshot();
  headCount.setScores(scores, { T: 26, eps: 0.25 });
  headCount.open({ layer: -1, head: 0 });
  headCount.open({ layer: 0, head: -1 });
  expect(text('p')).toMatchSnapshot();
  headCount.open({ layer: 0, head: 1 });
  expect(text('p')).toMatchSnapshot();
  headCount.open({ layer: 0, head: 0 });
  headCount.open({ layer: 0, head: 0 });
  expect(text('p')).toMatchSnapshot();
  // 100 × 0.29 is a little less than 29.
  headCount.setScores(scores, { T: 26, eps: 0.29 });
  expect(text('p')).toMatch(/more than 29%\.$/);
  headCount.setScores(scores, { T: 26, eps: 0.25 });
  headCount.open({ layer: 1, head: 0 });
  expect(text('p')).toMatchSnapshot();
  headCount.setScores(
    scores.map((score) => ({ ...score, alpha: 0 })),
    { T: 26, eps: 0.3 },
  );
  expect(text('p')).toMatchSnapshot();
  headCount.setScores(scores, { T: 9, eps: 0.3 });
  expect(text('p')).toMatchSnapshot();
});

describe('the calculator of one attention row', () => {
  const renderRow = (attributes = '') => {
    const reader = render(`<sink-row ${attributes}>before</sink-row>`);
    const cells = () =>
      reader.all('tbody tr').map((tableRow) =>
        [...tableRow.querySelectorAll('td:not(.slides)')]
          .map((cell) => reader.words(cell))
          .join(' ')
          .trim(),
      );
    const slide = (label: string, value: string) =>
      reader.enter(`[aria-label="${label}"]`, value, 'input');
    return { ...reader, cells, slide };
  };

  it('has the weights of its scores, beside those of other forms', () => {
    const { cells, texts, slide, all } = renderRow('beside="sigmoid nothing"');
    expect(texts('thead th')).toEqual(['Token', 'Score x', 'This formula', 'Sigmoid']);
    expect(texts('tbody th')).toMatchSnapshot();
    // e, 1 and 1/e over their sum; 1 / (1 + e^−x).
    expect(cells()).toEqual(['67% 73%', '24% 50%', '9% 27%', '– –', '0.38 0.79']);
    expect(all('.bar')[0]!.getAttribute('style')).toMatch(/^--share: 0\.665/);
    slide('Score of token 2', '1');
    expect(cells().slice(0, 3)).toEqual(['47% 73%', '47% 73%', '6% 27%']);
    expect(texts('.slid')).toEqual(['1.0', '1.0', '−1.0']);
    expect(texts('.switch')).toEqual([]);
    expect(all('[role=region]')[0]!.getAttribute('aria-label')).toBe('One row of attention');
  });

  it('has the switches that its attribute names, with the settings of each', () => {
    const { click, texts, pressed, cells, all, slide, text } = renderRow(
      'switches="bias gate" bias="key"',
    );
    const sliderLabels = () =>
      all('.setting input').map((slider) => slider.getAttribute('aria-label'));
    expect(pressed('.switch button')).toEqual(['key bias k, v', 'none']);
    expect([sliderLabels(), all('[role=region]')[0]!.getAttribute('aria-label')]).toMatchSnapshot();
    // The bias has weight e as well: the sum is e + 1 + 1/e + e.
    expect([cells()[3], all('.nowhere').length]).toEqual(['40%', 1]);
    slide('Value v of the bias', '-1');
    expect(text('[role=status]')).toContain('the head writes');
    click('sink logit s');
    expect([pressed('.switch button'), sliderLabels()]).toMatchSnapshot();
    all('[aria-label=Gate] button')[1]!.click();
    expect(sliderLabels()).toEqual(['Sink logit s', 'Gate g']);
    const writtenLength = Number(cells()[4]);
    slide('Gate g', '0');
    expect([writtenLength > 0, cells()[4]]).toEqual([true, '0.00']);
    click('Reset');
    expect([pressed('.switch button'), cells()[3]]).toEqual([['key bias k, v', 'none'], '40%']);
    expect(texts('math').length).toBeGreaterThan(1);
    expect(renderRow('normalizer="relu"').cells()[0]).toBe('67%');
    expect(renderRow('normalizer="none"').cells().slice(0, 3)).toEqual(['100%', '0%', '−100%']);
    expect(
      [...document.querySelectorAll('.bar')].map((bar) => bar.getAttribute('style')),
    ).toMatchSnapshot();
  });
});

describe('the widget that generates text with three caches', () => {
  it('continues one prompt with one seed, and counts the tokens that differ', async () => {
    const writer = { id: 'softmax' };
    const models = { get: vi.fn(async () => writer) };
    borrowing.borrowModels.mockResolvedValue(models);
    writing.promptOf.mockResolvedValue([1, 2, 3]);
    writing.continuePrompt.mockImplementation(async (_: unknown, { name }: { name: string }) => ({
      text: `text of ${name}`,
      tokens: name === 'full' ? [1, 2, 3, 4] : [1, 1, 1, 2],
    }));
    const element = document.createElement('sink-write');
    element.innerHTML = '<p class="recorded">recorded</p>';
    element.setAttribute('model', 'softmax');
    element.setAttribute('prompt', 'Once');
    document.body.append(element);
    const reader = readOf(document.body);
    const { text, texts, enter, click, all, button } = reader;
    expect([text('.recorded'), all<HTMLTextAreaElement>('textarea')[0]!.value]).toMatchSnapshot();
    enter('textarea', 'Twice', 'input');
    enter('input', '7', 'input');
    click('Generate');
    expect([text('button'), button('Generating …').disabled]).toEqual(['Generating …', true]);
    await vi.waitUntil(() => text('button') === 'Generate', PATIENCE);
    expect(borrowing.borrowModels).toHaveBeenCalledWith(all('sink-write')[0], ['softmax']);
    expect(writing.promptOf).toHaveBeenCalledWith(writer, 'Twice', 127);
    expect(
      writing.continuePrompt.mock.calls.map(([, { name, edits }, options]) => [
        name,
        edits(),
        options,
      ]),
    ).toEqual([
      ['full', [], { prompt: [1, 2, 3], count: 125, seed: 7 }],
      [
        'last',
        [{ kind: 'evict', policy: 'window', budget: 24 }],
        expect.objectContaining({ seed: 7 }),
      ],
      ['first', [{ kind: 'evict', policy: 'first', budget: 24, first: 1 }], expect.anything()],
    ]);
    expect(texts('tbody tr')).toEqual([
      expect.stringMatching(/^All keys text of full 100%$/),
      expect.stringMatching(/^The last 24 keys text of last 50%$/),
      expect.stringMatching(/^The first key and the last 23 text of first 50%$/),
    ]);
    expect([
      all('.recorded'),
      all('sink-write')[0]!.dataset.seed,
      button('Generate').disabled,
    ]).toEqual([[], '7', false]);
  });

  it('never renders into the recorded texts, even if these are parsed later, and not twice after a move', async () => {
    borrowing.borrowModels.mockResolvedValue({ get: async () => ({}) });
    const { text, texts, click, all } = render('<sink-write></sink-write>');
    const element = all('sink-write')[0]!;
    element.insertAdjacentHTML('beforeend', '<p class="recorded">recorded</p>');
    click('Generate');
    expect([text('.recorded'), texts('button')]).toEqual(['recorded', ['Generating …']]);
    await vi.waitUntil(() => text('button') === 'Generate', PATIENCE);
    expect([all('.recorded'), all('tbody tr').length]).toEqual([[], 3]);
    const section = document.createElement('section');
    document.body.append(section);
    section.append(element);
    expect([all('textarea').length, all('table').length]).toEqual([1, 1]);
  });

  it('refuses a seed that is no whole number from 0 to 999', async () => {
    borrowing.borrowModels.mockReset().mockResolvedValue({ get: async () => ({}) });
    const { text, texts, click, enter } = render('<sink-write></sink-write>');
    for (const seed of ['-1', '1.5', '1000', '99999999999', '']) {
      enter('input', seed, 'input');
      click('Generate');
      expect([text('[role=status]'), text('button')]).toMatchSnapshot(seed);
    }
    expect(borrowing.borrowModels).not.toHaveBeenCalled();
    enter('input', '999', 'input');
    click('Generate');
    await vi.waitUntil(() => texts('tbody tr').length, PATIENCE);
    expect(text('[role=status]')).toBe('');
  });

  it('reports a failure', async () => {
    borrowing.borrowModels.mockRejectedValueOnce(new Error('no network'));
    const { text, click, all } = render('<sink-write></sink-write>');
    click('Generate');
    await vi.waitUntil(() => text('[role=status]') === 'no network', PATIENCE);
    expect([text('button'), all('table')]).toEqual(['Generate', []]);
    const [element] = all('sink-write');
    await vi.waitUntil(() => borrowing.returnModels.mock.calls.length > 0, PATIENCE);
    borrowing.returnModels.mockClear();
    element!.remove();
    await vi.waitUntil(() => borrowing.returnModels.mock.calls.length > 0, PATIENCE);
    expect(borrowing.returnModels).toHaveBeenCalledWith(element);
  });
});
