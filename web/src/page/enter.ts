/** Shows one room at a time. Its code is fetched when the reader enters it. */
import { computed, effect } from '@preact/signals-core';
import { defaults } from '../ask/state';
import { set, state } from './address';
import { Scope, type Context } from './context';
import { fail, offerNewVersion } from './messages';

type Build = (root: HTMLElement, context: Context, scope: Scope) => void;

export interface Room {
  /** The room's name in links and in data-room. */
  readonly name: string;
  readonly title: string;
  readonly load: () => Promise<{ readonly build: Build }>;
}

function tabTitle({ name, title }: Room): string {
  if (name === defaults.room) return 'Why do language models stare at the first token? · Sinkscope';
  return `${title} · Sinkscope`;
}

/** Shows the room of the state, now and after changes; the first is the default. */
export function enter(main: HTMLElement, rooms: readonly Room[], context: Context): void {
  let requestedRoom: { readonly name: string; readonly scope: Scope } | undefined;
  let shownRoom: typeof requestedRoom;
  const buildFunctions = new Map<string, Build>();
  const roomOfState = computed(
    () => rooms.find(({ name }) => name === state.value.room) ?? rooms[0]!,
  );
  effect(() => {
    const room = roomOfState.value;
    const roomName = room.name;
    if (requestedRoom?.name === roomName) return;
    const scope = new Scope();
    requestedRoom = { name: roomName, scope };
    // The previous room stays until the next one is loaded.
    const show = (build: Build) => {
      if (requestedRoom?.scope !== scope) return;
      shownRoom?.scope.end();
      shownRoom = requestedRoom;
      context.point({});
      const root = document.createElement('div');
      root.className = `room room-${roomName}`;
      main.replaceChildren(root);
      main.dataset.room = roomName;
      document.title = tabTitle(room);
      build(root, context, scope);
    };
    const cached = buildFunctions.get(roomName);
    // Builds the room outside of this effect, since a room sets state and calls the queue.
    if (cached) queueMicrotask(() => show(cached));
    else
      room.load().then(
        ({ build }) => {
          buildFunctions.set(roomName, build);
          show(build);
        },
        async (error: unknown) => {
          const isNewer = await isBuildReplaced();
          if (requestedRoom?.scope !== scope) return;
          if (shownRoom) {
            requestedRoom = shownRoom;
            set({ room: shownRoom.name });
          }
          if (isNewer) offerNewVersion(() => location.reload());
          else fail(error);
        },
      );
  });
}

/** Whether the host serves a newer build than the running one, so that the running build's files are gone. */
async function isBuildReplaced(): Promise<boolean> {
  const script = document.querySelector('script[type="module"]')?.getAttribute('src');
  try {
    const response = await fetch(location.href.split('#')[0]!, { cache: 'no-store' });
    return response.ok && Boolean(script) && !(await response.text()).includes(script!);
  } catch {
    return false;
  }
}
