// @vitest-environment happy-dom
/** One view as a separate figure: its controls, and its disposal. */
import { expect, it, vi } from 'vitest';
import type { Scope } from '../src/page/context';
import { build } from '../src/rooms/figure';
import { frameOf, tensor } from './fixture';
import { pageOf, roomOf } from './page';

// happy-dom has no parts.
Object.defineProperty(Element.prototype, 'part', { value: { add: () => {} } });

const sliders = vi.hoisted(() => [] as { ended: boolean; went: number[] }[]);
vi.mock('../src/rooms/walk', () => ({
  addTrainingSlider: (_root: HTMLElement, _context: unknown, scope: Scope) => {
    const slider = { ended: false, went: [] as number[] };
    sliders.push(slider);
    scope.onEnd(() => (slider.ended = true));
    return (step: number) => slider.went.push(step);
  },
}));
vi.mock('../src/page/figure', () => ({
  Figure: class {
    root = document.createElement('section');
    constructor(place: HTMLElement) {
      place.append(this.root);
    }
    update() {}
  },
}));

it('the figure has the slider through training while its host requests it', () => {
  const room = roomOf(build, pageOf({ view: 'heads', controls: [] }, [frameOf()]));
  const chooseStep = (step: number) =>
    room.root.dispatchEvent(new CustomEvent('choose-step', { detail: step }));
  const requestControls = (controls: readonly 'step'[]) =>
    (room.state.value = { ...room.state.value, controls });
  chooseStep(1);
  expect(sliders).toEqual([]);
  requestControls(['step']);
  chooseStep(2);
  expect(sliders).toEqual([{ ended: false, went: [2] }]);
  requestControls([]);
  chooseStep(3);
  expect(sliders).toEqual([{ ended: true, went: [2] }]);
  requestControls(['step']);
  expect(sliders).toHaveLength(2);
  room.scope.end();
  expect(sliders.map(({ ended }) => ended)).toEqual([true, true]);
});

it('the figure states the sentence of its view once per model, or that the view does not apply', () => {
  const frame = frameOf(
    { title: 'The model' },
    { att: tensor([2, 2, 3, 3], new Float32Array(36)) },
  );
  const sentenceOf = (view: string) => {
    const room = roomOf(build, pageOf({ view } as never, [frame]));
    return room.text('[data-finding]');
  };
  expect(sentenceOf('heads')).toMatchSnapshot();
  expect(sentenceOf('router')).toMatchSnapshot();
});

it('the figure says that a model is loading until the model has failed', () => {
  const page = pageOf({ view: 'heads', shown: ['softmax', 'relu'] } as never);
  const room = roomOf(build, page);
  expect(room.text('[data-finding]')).toMatch(/Loading .* Loading /);
  page.queue.entries.value = new Map([['softmax', { error: 'no such file' }]]) as never;
  expect(room.text('[data-finding]')).toMatch(/^Loading relu …$/);
  page.queue.entries.value = new Map(
    ['softmax', 'relu'].map((name) => [name, { error: 'no such file' }]),
  ) as never;
  expect(room.text('[data-finding]')).toBe('');
});
