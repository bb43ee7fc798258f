import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseHash } from '../src/ask/state';
import { parseSubject } from '../src/ask/subject';
import { rooms } from '../src/rooms';
import { QUANTITIES } from '../src/timeline/course';
import { views } from '../src/views';

interface Row {
  readonly id: string;
  readonly seen: string | null;
}

const readModels = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../models/${name}`, import.meta.url), 'utf8'));

const claimLinks = (readModels('claims.json') as { rows: Row[] }).rows.flatMap(
  ({ id, seen: link }) => (link === null ? [] : [[id, link] as const]),
);
const zooIds = (readModels('zoo/index.json') as { id: string }[]).map(({ id }) => id);

it.each(claimLinks)('claim %s links to a room, view and models that exist', (_, link) => {
  const { state, problems } = parseHash(link);
  expect(problems).toEqual([]);
  const names = [...new URLSearchParams(link.slice(1)).keys()];
  expect(rooms.map(({ name }) => name)).toContain(state.room);
  expect(views.map(({ name }) => name)).toContain(state.view);
  expect(QUANTITIES.map(({ name }) => name)).toContain(state.curve);
  for (const one of state.shown) expect(zooIds).toContain(parseSubject(one)!.id);
  // Rooms without a view, or without models, would not show the claim.
  if (names.includes('view')) expect(['explore', 'compare']).toContain(state.room);
  if (names.includes('curve')) expect(state.room).toBe('training');
  if (names.includes('bench')) expect(state.room).toBe('purpose');
});

it('most claims can be seen on the page', () => expect(claimLinks.length).toBeGreaterThan(30));
