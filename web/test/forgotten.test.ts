// @vitest-environment happy-dom
/** The recorded texts that open “Why it matters”: their headlines, their cards, and the reader's choice. */
import { describe, expect, it } from 'vitest';
import recorded from '../lessons/pictures/forgotten.json';
import { addForgotten, headingOf } from '../src/rooms/forgotten';
import { defaults } from '../src/ask/state';
import { streaming } from '../src/experiments/streaming';
import { percentWorse } from '../src/views/settings';
import { pageOf, roomOf } from './page';

const headingAt = (last: number, first: number, all: number) => {
  const at = (loss: number) => ({ text: '', loss });
  const written = { last: at(last), first: at(first), all: at(all), second: at(0), middle: at(0) };
  return headingOf({ written });
};

describe('recorded texts', () => {
  it('come with what the model loses on the passages of the room, which the room states', () => {
    const { model, budget, reading } = recorded;
    const [last, first] = [reading.last, reading.first].map((loss) =>
      percentWorse(loss - reading.all),
    );
    expect([reading.passages, reading.tokens]).toEqual([defaults.runs, defaults.length]);
    expect(`${model} ${streaming.reported(defaults)}`).toBe(
      `SmolLM2-135M-Instruct SmolLM2-135M, a larger model, on ${reading.passages} such passages: ` +
        `${last} worse with the last ${budget} tokens, ${first} with the first kept`,
    );
  });

  it('are called nonsense only if they are far less likely, and the first word mends that', () => {
    expect(headingAt(3, 2, 1.5)).toMatch(/nonsense/);
    expect(headingAt(2.9, 2, 1.5)).toMatch(/writes on/);
    expect(headingAt(4, 3, 1)).toMatch(/gets worse/);
    expect(Object.values(recorded.texts).map(headingOf)).toMatchSnapshot();
  });

  it('have the same number of tokens in both caches, and a first word that is taken away and put back', () => {
    const room = roomOf(addForgotten, pageOf());
    const words = () => room.texts('h1, .opening, .forgotten-card > *, details > .hint');
    expect(words()).toMatchSnapshot();
    room.enter('select', 'recipe');
    expect(words()).toMatchSnapshot();
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
    room.state.value = { ...room.state.value, experiment: 'cache' };
    expect(words()).toEqual([]);
  });
});
