/**
 * The table of rooms. A room is a layout of views with its controls; its code is fetched when the reader
 * enters it.
 */
import type { Room } from '../page/enter';

export const rooms: readonly Room[] = [
  { name: 'start', title: 'Start', load: () => import('./start') },
  { name: 'explore', title: 'Explore', load: () => import('./explore') },
  { name: 'compare', title: 'Compare', load: () => import('./compare') },
  { name: 'training', title: 'Training', load: () => import('./training') },
  { name: 'purpose', title: 'Why it matters', load: () => import('./purpose') },
  { name: 'lab', title: 'Lab', load: () => import('./lab') },
  { name: 'learn', title: 'Learn', load: () => import('./learn') },
];

/** An embed has its styles in a shadow tree, so that the room itself imports none. */
async function figureRoom() {
  const [room] = await Promise.all([
    import('./figure'),
    import('../views/views.css'),
    import('./tables.css'),
    import('./figure.css'),
    import('../lab/embedded.css'),
  ]);
  return room;
}

/** The only room of embed.html. */
export const figure: Room = { name: 'figure', title: 'Figure', load: figureRoom };
