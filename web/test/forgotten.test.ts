// @vitest-environment happy-dom
/** The recorded texts that open “Why it matters”: their headlines, their cards, and the reader's choice. */
import { describe, expect, it } from 'vitest';
import recorded from '../lessons/pictures/forgotten.json';
import { addForgotten, headingOf } from '../src/rooms/forgotten';
import { pageOf, roomOf } from './page';

const headingAt = (last: number, first: number, all: number) => {
  const at = (loss: number) => ({ text: '', loss });
  const written = { last: at(last), first: at(first), all: at(all), second: at(0), middle: at(0) };
  return headingOf({ written });
};

describe('recorded texts', () => {
  it('are called nonsense only if they are far less likely, and the first word mends that', () => {
    expect(headingAt(3, 2, 1.5)).toMatch(/nonsense/);
    expect(headingAt(2.9, 2, 1.5)).toMatch(/writes on/);
    expect(headingAt(4, 3, 1)).toMatch(/gets worse/);
    expect(Object.values(recorded.texts).map(headingOf)).toMatchSnapshot();
  });

  it('have the same number of kept tokens on both cards, and their controls below', () => {
    const room = roomOf(addForgotten, pageOf());
    const words = () =>
      room.texts('h1, .opening, .forgotten-card > *, .forgotten-second, tbody tr, details > .hint');
    expect(words()).toMatchSnapshot();
    room.click('recipe');
    expect(room.pressed('.segmented button')).toEqual(['recipe']);
    expect(words()).toMatchSnapshot();
    room.state.value = { ...room.state.value, experiment: 'cache' };
    expect(words()).toEqual([]);
  });
});
