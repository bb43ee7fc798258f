// @vitest-environment happy-dom
/** The part of Start that deletes the first token: its calls of the model, its messages, and its undo. */
import { beforeEach, expect, it, vi } from 'vitest';
import type { Frame } from '../src/frame';
import { addRecordedTexts, DeletionTrial } from '../src/rooms/without_first';
import { frameOf, turn } from './fixture';
import { pageOf, roomOf } from './page';

const runTrial = vi.hoisted(() => vi.fn());
vi.mock('../src/run/without_first', async (load) => ({ ...(await load<object>()), runTrial }));

interface Job {
  readonly prompt: readonly number[];
  readonly count: number;
  readonly seed: number;
  readonly signal: AbortSignal;
}
const textOf = (text: string, repeated: number, loss: number) => ({
  text,
  repeated,
  loss,
  late: repeated,
});
/** Returns the trial of a seed. Seeds differ a little; without the token the text repeats itself. */
const createTrial = ({ seed }: Job) => ({
  kept: textOf(`kept ${seed}`, 0.1 + 0.001 * seed, 2),
  deleted: textOf(`deleted ${seed}`, 0.8 + 0.002 * seed, 2.5),
  restored: textOf(`restored ${seed}`, 0.2, 2),
  control: textOf(`control ${seed}`, 0.12, 2),
});

beforeEach(() => {
  runTrial.mockReset();
  runTrial.mockImplementation(async (_: unknown, job: Job) => createTrial(job));
});

function addTrial() {
  const writer = { model: {}, tokenizer: {} };
  const getModel = vi.fn(async () => writer);
  let deletionTrial!: DeletionTrial;
  const room = roomOf(
    (root, context, scope) => (deletionTrial = new DeletionTrial(root, context, scope)),
    pageOf({}, [], { models: { get: getModel } }),
  );
  return {
    ...room,
    deletionTrial,
    getModel,
    jobs: () => runTrial.mock.calls.map(([, job]) => job as Job),
  };
}
const frameOfContext = (context: number, change: Partial<Frame> = {}) =>
  frameOf({ architecture: { ...frameOf().architecture, context }, ...change } as never);

it('generates from the reader’s text with eight seeds, and states the means', async () => {
  const { deletionTrial, root, text, texts, jobs, getModel, click, button } = addTrial();
  expect((root as HTMLElement).hidden).toBe(true);
  await deletionTrial.start(frameOfContext(99, { subject: 'softmax~silence(1,0)' }));
  expect(getModel).toHaveBeenCalledWith('softmax', expect.anything());
  expect(jobs().map(({ seed }) => seed)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(jobs()[0]).toMatchObject({ prompt: [0, 5, 6], count: 64 });
  expect([text('h2'), (root as HTMLElement).hidden]).toMatchSnapshot();
  expect(text('[role=status]')).toMatchSnapshot();
  // The texts come from seed 1, the numbers are means over all; special tokens are hidden.
  expect(texts('table')[0]).toContain(`${frameOf().question.prompt}deleted 1 81% 2.50`);
  expect(texts('caption')[0]).toMatchSnapshot();
  expect(button('Put it back')).toBeDefined();
  click('Put it back');
  expect([(root as HTMLElement).hidden, root.textContent]).toEqual([true, '']);
});

it('generates as many tokens as fit in the context, or reports that there is too little room', async () => {
  const tokenCounts = async (context: number) => {
    const { deletionTrial, jobs, text } = addTrial();
    runTrial.mockClear();
    await deletionTrial.start(frameOfContext(context));
    return [jobs()[0]?.count, text('[role=status]')];
  };
  expect((await tokenCounts(3 + 64))[0]).toBe(64);
  expect((await tokenCounts(3 + 65))[0]).toBe(64);
  expect((await tokenCounts(3 + 30))[0]).toBe(30);
  expect((await tokenCounts(3 + 16))[0]).toBe(16);
  expect(await tokenCounts(3 + 15)).toMatchSnapshot();
  expect((await tokenCounts(1))[1]).toMatch(/room for 0 more tokens/);
});

it('shows which seed is running, and stops when it restarts, is stopped or the room ends', async () => {
  const { deletionTrial, text, texts, jobs, click, scope, root } = addTrial();
  const finishers: (() => void)[] = [];
  runTrial.mockImplementation(
    (_: unknown, job: Job) =>
      new Promise((resolve) => finishers.push(() => resolve(createTrial(job)))),
  );
  void deletionTrial.start(frameOfContext(99));
  await turn();
  expect([text('[role=status]'), texts('table')]).toMatchSnapshot();
  finishers.shift()!();
  await turn();
  expect([text('[role=status]'), texts('caption')[0]]).toEqual([
    expect.stringMatching(/seed 2 of 8\.$/),
    expect.stringMatching(/^Softmax model\. Texts of 64 tokens; /),
  ]);
  void deletionTrial.start(frameOfContext(99, { title: 'Other' }));
  await turn();
  expect(jobs().map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
  // A late result does not belong to the shown text.
  finishers.shift()!();
  await turn();
  expect(text('[role=status]')).toMatch(/^Other .* seed 1 of 8\.$/);
  click('Stop');
  expect([jobs().at(-1)!.signal.aborted, root.textContent]).toEqual([true, '']);
  void deletionTrial.start(frameOfContext(99));
  await turn();
  scope.end();
  expect(jobs().at(-1)!.signal.aborted).toBe(true);
});

it('reports a failure', async () => {
  const { deletionTrial, text, button } = addTrial();
  runTrial.mockRejectedValueOnce(new Error('out of memory'));
  await deletionTrial.start(frameOfContext(99));
  expect([text('[role=status]'), text('h2')]).toMatchSnapshot();
  expect(button('Put it back')).toBeDefined();
});

it('shows the recorded texts of a real model: with the token, without it, and with it put back', () => {
  const { text, texts, click, pressed, root } = roomOf(
    (place, _, scope) => addRecordedTexts(place, scope),
    pageOf(),
  );
  expect(text('.answer')).toMatchSnapshot();
  expect(text('p:not(.answer)')).toMatchSnapshot();
  expect(texts('.bars tr')).toEqual([
    'nothing hidden 0%',
    'second token hidden 0%',
    'first token hidden 86%',
  ]);
  const shares = [...root.querySelectorAll<HTMLElement>('.bars td')].map((cell) =>
    Number(cell.style.getPropertyValue('--share')),
  );
  expect(shares.map((share) => Math.round(100 * share))).toEqual([0, 0, 86]);
  expect(text('[data-text=kept]')).toMatchSnapshot();
  const drawnText = () => [
    pressed('button')[0],
    root.querySelector('[role=status]')!.getAttribute('data-text'),
    text('[role=status]'),
  ];
  expect(drawnText()).toEqual([
    'Hide the first token',
    'deleted',
    expect.stringMatching(
      /^The process by .* It occurs .*(?: Plants turn sunlight into food is.*){6}/,
    ),
  ]);
  click('Show it again');
  expect(drawnText()).toEqual([
    'Show it again',
    'restored',
    expect.stringMatching(
      /(?: Plants turn sunlight into food is.*){3}\[first token shown again\].* a vital process that sustains life/,
    ),
  ]);
  expect(text('.more p')).toMatchSnapshot();
  expect(texts('caption').at(-1)).toMatchSnapshot();
});
