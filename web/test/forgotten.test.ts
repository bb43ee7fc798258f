// @vitest-environment happy-dom
/** The recorded texts that open each question of “Why it matters”: their titles, their cards, and the reader's choices. */
import { describe, expect, it } from 'vitest';
import recorded from '../lessons/pictures/forgotten.json';
import type { State } from '../src/ask/state';
import { addForgotten, EXHIBITS, repeatsItself, titleOf } from '../src/rooms/forgotten';
import { pageOf, roomOf } from './page';

const EXPERIMENTS = ['streaming', 'cache', 'quantization', 'fragility'] as const;
const texts = Object.values(recorded.texts);

/** Returns the titles of an experiment's first case with these losses. */
const titleAt = (experiment: State['experiment'], bad: number, good: number, all: number) => {
  const [first] = Object.values(EXHIBITS[experiment].cases);
  const [, broken, repaired] = first!;
  const { text } = texts[0]!.written.all;
  const written = {
    ...texts[0]!.written,
    [broken]: { text, loss: bad },
    [repaired]: { text, loss: good },
  };
  const whole = { ...texts[0]!, written: { ...written, all: { text, loss: all } } };
  return titleOf(whole, first!);
};

/** Opens a question at its first case. */
function openAt(experiment: State['experiment']) {
  const room = roomOf(addForgotten, pageOf({ experiment }));
  return { ...room, words: () => room.texts('h1, .opening, .forgotten-card > *, details > .hint') };
}

const choose = ({ state }: ReturnType<typeof openAt>, choice: string) =>
  (state.value = { ...state.value, policy: choice });

describe('recorded texts', () => {
  it('have the number that Compare states, and their largest number at the first word', () => {
    expect(recorded.sinks).toBe(recorded.texts.story.sinks.all);
    for (const { largest, sinks, looks, kept } of texts) {
      const { token, size, rest, peaks, zeros, erased } = largest;
      expect([token, peaks[0], size > 100 * rest]).toEqual([0, size, true]);
      // Heads recognize the sink by this number: without it they have fewer sinks than without the next largest.
      expect(sinks.firstWord).toBeLessThan(sinks.nextNumber / 2);
      expect(looks.firstWord[0]).toBeLessThan(looks.nextNumber[0]! / 2);
      expect(erased[0]! > erased[1]!).toBe(true);
      // The same number of other words ruins texts without breaking the sink, so no card erases it there.
      expect(sinks.otherWords).toBeGreaterThan(sinks.all);
      // Steps that reach this number round others away; each rule of the second question keeps the first word.
      expect(Math.max(...looks.all)).toBe(looks.all[0]);
      expect(zeros[0]).toBeGreaterThan(99);
      expect(zeros[1]).toBeLessThan(20);
      expect(erased[0]).toBe(size);
      for (const [, , rule] of Object.values(EXHIBITS.cache.cases))
        expect(kept[rule as keyof typeof kept][0]).toBeGreaterThan(50);
    }
  });

  it.each(EXPERIMENTS)(
    'of %s are called nonsense only if they are far less likely',
    (experiment) => {
      const titles = [
        titleAt(experiment, 3, 2, 1.5),
        titleAt(experiment, 4, 3, 1),
        titleAt(experiment, 4, 3.5, 1),
        titleAt(experiment, 2.4, 2, 1.5),
      ];
      expect(titles).toMatchSnapshot();
      expect(titles.map((title) => /nonsense|gets worse/.test(title)).at(-1)).toBe(false);
      expect(
        Object.values(EXHIBITS[experiment].cases).flatMap((one) =>
          texts.map((text) => titleOf(text, one)),
        ),
      ).toMatchSnapshot();
    },
  );

  it.each(EXPERIMENTS)('of %s stand side by side', (experiment) => {
    const room = openAt(experiment);
    expect(room.words()).toMatchSnapshot();
    room.enter('[aria-label="recorded text"]', 'recipe');
    expect(room.words()).toMatchSnapshot();
    for (const choice of Object.keys(EXHIBITS[experiment].cases).slice(1)) {
      choose(room, choice);
      expect(room.texts('h1, .forgotten-card h2, .writing, .cause')).toMatchSnapshot();
    }
  });

  it('have bars of one scale on both cards, broken for the huge number alone', () => {
    const barsOf = (experiment: State['experiment']) =>
      openAt(experiment)
        .all('.forgotten-card .bar')
        .map((bar) => ({
          size: Number(/[\d,]+/.exec(bar.textContent!)![0].replace(',', '')),
          share: Number(bar.style.getPropertyValue('--share')),
          isBroken: bar.classList.contains('broken'),
        }));
    const bars = barsOf('quantization');
    const isHuge = ({ size }: { size: number }) => size === 22552;
    expect(bars.filter(({ isBroken }) => isBroken)).toEqual(bars.filter(isHuge));
    const units = bars
      .filter((bar) => bar.size > 50 && !isHuge(bar))
      .map(({ size, share }) => share / size);
    expect(units.length).toBeGreaterThan(1);
    for (const unit of units) expect(unit).toBeCloseTo(units[0]!, 3);
    const erased = openAt('fragility').all('.forgotten-card tr');
    const [largest, next] = erased.map((row) => ({
      size: Number(row.querySelector('td')!.textContent!.replace(',', '')),
      share: Number(row.querySelector<HTMLElement>('.bar')!.style.getPropertyValue('--share')),
    }));
    expect([largest!.size, largest!.share]).toEqual([22552, 1]);
    expect(next!.share).toBeCloseTo(next!.size / largest!.size, 3);
  });

  it('show the first rule where the reader measures one that is not recorded', () => {
    const room = openAt('cache');
    const before = room.words();
    choose(room, 'random');
    expect(room.words()).toEqual(before);
    expect(room.texts('[aria-label="rule"] option')).toHaveLength(
      Object.keys(EXHIBITS.cache.cases).length,
    );
  });

  it('repeat themselves only with the same words three times in a row', () => {
    const again = ' I am not going to see.';
    const texts = [
      '',
      again,
      again.repeat(2),
      ` Is${again.repeat(3)}`,
      ' a b a c a b',
      ' no no no',
    ];
    expect(texts.map(repeatsItself)).toEqual([false, false, false, true, false, true]);
    // Words beyond those that a card shows count for nothing.
    const words = Array.from({ length: 40 }, (_, i) => ` word${i}`).join('');
    expect(repeatsItself(words + again.repeat(3))).toBe(false);
  });

  it('have a word that is taken away and put back', () => {
    const room = openAt('streaming');
    const press = () => {
      room.all('.forgotten-card button')[0]!.click();
      return [
        room.pressed('.forgotten-card button'),
        ...room.texts('.forgotten-card h2, .writing'),
      ];
    };
    expect([press(), press()]).toMatchSnapshot();
    // With the first word exact both cards agree.
    room.state.value = { ...room.state.value, experiment: 'quantization' };
    const [, title, writing, ...other] = press();
    expect([title, writing]).toEqual(other);
  });
});
