/** Shows one room at a time. Its code is fetched when the reader enters it. */
import { computed, effect } from '@preact/signals-core';
import { defaults } from '../ask/state';
import { set, state } from './address';
import { Scope, type Context } from './context';
import { fail, offerNewer } from './messages';

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

/**
 * Shows the room of the state, now and after changes.
 * @param rooms the first one is the default
 */
export function enter(main: HTMLElement, rooms: readonly Room[], context: Context): void {
  let requested: { readonly name: string; readonly scope: Scope } | undefined;
  let shown: typeof requested;
  const builds = new Map<string, Build>();
  const roomOfState = computed(
    () => rooms.find(({ name }) => name === state.value.room) ?? rooms[0]!,
  );
  effect(() => {
    const room = roomOfState.value;
    const target = room.name;
    if (requested?.name === target) return;
    const scope = new Scope();
    requested = { name: target, scope };
    // The previous room stays until the next one is loaded.
    const show = (build: Build) => {
      if (requested?.scope !== scope) return;
      shown?.scope.end();
      shown = requested;
      context.point({});
      const root = document.createElement('div');
      root.className = `room room-${target}`;
      main.replaceChildren(root);
      main.dataset.room = target;
      document.title = tabTitle(room);
      build(root, context, scope);
    };
    const cached = builds.get(target);
    // Builds the room outside of this effect, since a room sets state and calls the queue.
    if (cached) queueMicrotask(() => show(cached));
    else
      room.load().then(
        ({ build }) => {
          builds.set(target, build);
          show(build);
        },
        async (error: unknown) => {
          const isNewer = await isReplaced();
          if (requested?.scope !== scope) return;
          if (shown) {
            requested = shown;
            set({ room: shown.name });
          }
          if (isNewer) offerNewer(() => location.reload());
          else fail(error);
        },
      );
  });
}

/** Whether the host serves a newer build than the running one, so that the running build's files are gone. */
async function isReplaced(): Promise<boolean> {
  const script = document.querySelector('script[type="module"]')?.getAttribute('src');
  try {
    const answer = await fetch(location.href.split('#')[0]!, { cache: 'no-store' });
    return answer.ok && Boolean(script) && !(await answer.text()).includes(script!);
  } catch {
    return false;
  }
}
