/**
 * The table of rooms. A room is a layout of views with controls; its code is fetched when the reader enters the room, but
 * that of the first one is part of the page.
 */
import type { Room } from '../page/enter';
import { ROOMS, type RoomName } from './names';
import { build } from './start';

const LOADERS: Readonly<Record<RoomName, Room['load']>> = {
  start: () => Promise.resolve({ build }),
  explore: () => import('./explore'),
  compare: () => import('./compare'),
  training: () => import('./training'),
  purpose: () => import('./purpose'),
  lab: () => import('./lab'),
  learn: () => import('./learn'),
};

export const rooms: readonly Room[] = ROOMS.map(({ name, title }) => ({
  ...{ name, title },
  load: LOADERS[name],
}));

/** Loads the room of embed.html and its styles. The room itself does not import them, since <sink-scope> shares it. */
async function figureRoom() {
  const [room] = await Promise.all([
    import('./figure'),
    import('./tables.css'),
    import('./figure.css'),
    import('../lab/embedded.css'),
    import('./purpose.css'),
  ]);
  return room;
}

export const figure: Room = { name: 'figure', title: 'Figure', load: figureRoom };
