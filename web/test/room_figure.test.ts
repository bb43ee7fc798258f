// @vitest-environment happy-dom
/** One view as a separate figure: its controls, and its disposal. */
import { expect, it, vi } from 'vitest';
import type { Scope } from '../src/page/context';
import { build } from '../src/rooms/figure';
import { frameOf, tensor } from './fixture';
import { pageOf, roomOf } from './page';

// happy-dom has no parts.
Object.defineProperty(Element.prototype, 'part', { value: { add: () => {} } });

const walks = vi.hoisted(() => [] as { ended: boolean; went: number[] }[]);
vi.mock('../src/rooms/walk', () => ({
  addTrainingSlider: (_root: HTMLElement, _context: unknown, scope: Scope) => {
    const seen = { ended: false, went: [] as number[] };
    walks.push(seen);
    scope.onEnd(() => (seen.ended = true));
    return (step: number) => seen.went.push(step);
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
  const made = roomOf(build, pageOf({ view: 'heads', controls: [] }, [frameOf()]));
  const choose = (step: number) =>
    made.root.dispatchEvent(new CustomEvent('choose-step', { detail: step }));
  const request = (controls: readonly 'step'[]) =>
    (made.state.value = { ...made.state.value, controls });
  choose(1);
  expect(walks).toEqual([]);
  request(['step']);
  choose(2);
  expect(walks).toEqual([{ ended: false, went: [2] }]);
  request([]);
  choose(3);
  expect(walks).toEqual([{ ended: true, went: [2] }]);
  request(['step']);
  expect(walks).toHaveLength(2);
  made.scope.end();
  expect(walks.map(({ ended }) => ended)).toEqual([true, true]);
});

it('the figure states the sentence of its view once per model, or that the view does not apply', () => {
  const frame = frameOf(
    { title: 'The model' },
    { att: tensor([2, 2, 3, 3], new Float32Array(36)) },
  );
  const says = (view: string) => {
    const made = roomOf(build, pageOf({ view } as never, [frame]));
    return made.text('[data-finding]');
  };
  expect(says('heads')).toBe('Attention maps of 2 layers by 2 heads of The model.');
  expect(says('router')).toBe('This view does not apply to The model.');
});
