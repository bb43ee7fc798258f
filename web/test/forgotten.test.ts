// @vitest-environment happy-dom
/** The recorded texts that open each question of “Why it matters”: their titles, their cards, and the reader's choices. */
import { describe, expect, it } from 'vitest';
import recorded from '../lessons/pictures/forgotten.json';
import { defaults, type State } from '../src/ask/state';
import { addForgotten, EXHIBITS, titleOf } from '../src/rooms/forgotten';
import { pageOf, roomOf } from './page';

const EXPERIMENTS = ['streaming', 'cache', 'quantization', 'fragility'] as const;
const texts = Object.values(recorded.texts);

/** Returns the titles of an experiment's first case with these losses. */
const titleAt = (experiment: State['experiment'], bad: number, good: number, all: number) => {
  const { cases } = EXHIBITS[experiment];
  const [, broken, repaired] = cases[0]!;
  const { text } = texts[0]!.written.all;
  const written = {
    ...texts[0]!.written,
    [broken]: { text, loss: bad },
    [repaired]: { text, loss: good },
  };
  return titleOf({ ...texts[0]!, written: { ...written, all: { text, loss: all } } }, cases[0]!);
};

function openAt(experiment: State['experiment']) {
  const room = roomOf(addForgotten, pageOf({ experiment }));
  return { ...room, words: () => room.texts('h1, .opening, .forgotten-card > *, details > .hint') };
}

describe('recorded texts', () => {
  it('have the number that Compare states', () => {
    expect(recorded.sinks).toBe(recorded.texts.story.sinks.all);
  });

  it('are of as many tokens and passages as the room measures', () => {
    const { reading } = recorded;
    expect([reading.passages, reading.tokens]).toEqual([defaults.runs, defaults.length]);
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
        EXHIBITS[experiment].cases.flatMap((one) => texts.map((text) => titleOf(text, one))),
      ).toMatchSnapshot();
    },
  );

  it.each(EXPERIMENTS)('of %s stand side by side', (experiment) => {
    const room = openAt(experiment);
    expect(room.words()).toMatchSnapshot();
    room.enter('[aria-label="text"]', 'recipe');
    expect(room.words()).toMatchSnapshot();
    const { label, cases } = EXHIBITS[experiment];
    for (const one of label ? cases.slice(1) : []) {
      room.enter(`[aria-label="${label}"]`, String(cases.indexOf(one)));
      expect(room.texts('h1, .forgotten-card h2, .writing')).toMatchSnapshot();
    }
  });

  it('have a first word that is taken away and put back', () => {
    const room = openAt('streaming');
    const press = (i: number) => {
      room.all('.forgotten-card button')[i]!.click();
      return [
        room.pressed('.forgotten-card button'),
        ...room.texts('.forgotten-card h2, .writing'),
      ];
    };
    // With the first word put back both cards agree.
    const [, title, writing, ...other] = press(0);
    expect([title, writing]).toEqual(other);
    expect([press(0), press(1), press(0)]).toMatchSnapshot();
    room.state.value = { ...room.state.value, experiment: 'quantization' };
    expect(press(0).slice(1, 3)).toEqual(press(0).slice(-2));
  });
});
