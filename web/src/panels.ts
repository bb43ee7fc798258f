/** The views on the page: a panel for each of them, a cell in it for each side. */
import { selectedHead, type Frame } from './frame';
import { addMenu, type Figure } from './save/menu';
import type { Side } from './session';
import { views } from './views/index';
import { part, type Context, type Reach, type View, type ViewKind } from './views/view';
import { stampWords } from './words';

export const SIDES = ['a', 'b'] as const;
export type PerSide<T> = Partial<Record<Side, T>>;

/** A view of one side, and what it shows. */
interface Made {
  readonly view: View;
  /** Where it draws, and what stands there of models that it has nothing of. */
  readonly room: HTMLElement;
  readonly absence?: HTMLElement;
  readonly menu: HTMLElement;
  shown: { readonly frame: Frame; readonly context: Context };
  /** The width of the window when it was drawn; 0 before. */
  width: number;
}

/** What a saved figure says beside its frame. */
export interface Saving {
  readonly version: () => string;
  readonly link: () => string;
  readonly fail: (error: unknown) => void;
}

export interface Panel {
  readonly kind: ViewKind;
  readonly section: HTMLElement;
  readonly cells: Record<Side, HTMLElement>;
  readonly made: PerSide<Made>;
}

/** An element of the page's own HTML. */
export function need(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** Sets a text only where it changes, so that a screen reader is not told twice. */
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function buildPanel(kind: ViewKind): Panel {
  const section = document.createElement('section');
  section.id = kind.name;
  section.className = 'view';
  section.hidden = kind.fits !== undefined;
  section.innerHTML = `<h2></h2><p class="how"></p><div class="sides"></div>`;
  section.querySelector('h2')!.textContent = kind.title;
  section.querySelector('.how')!.textContent = kind.how;
  const cells = Object.fromEntries(
    SIDES.map((side) => {
      const cell = document.createElement('div');
      cell.className = `side side-${side}`;
      section.querySelector('.sides')!.append(cell);
      return [side, cell];
    }),
  ) as unknown as Record<Side, HTMLElement>;
  return { kind, section, cells, made: {} };
}

/**
 * Builds the panels into #views.
 * @param only the one view that an embedded figure shows; the first one where no view has this name
 */
export function buildPanels(only?: string): Panel[] {
  const chosen = views.find((view) => view.name === only) ?? views[0];
  const panels = (only === undefined ? views : [chosen]).map(buildPanel);
  need('views').append(...panels.map(({ section }) => section));
  return panels;
}

function make({ kind, cells }: Panel, side: Side, shown: Made['shown'], desk: Desk): Made {
  const cell = cells[side];
  const absence = kind.lacks === undefined ? undefined : part(cell, 'conditions', 'p');
  if (absence) absence.textContent = kind.lacks!;
  const room = absence ? part(cell, kind.name) : cell;
  const view = kind.create(room, desk);
  const what = (): Figure => {
    const { frame, context } = made.shown;
    const { layer, head, state } = context;
    const quantities = kind.numbers(frame, layer, head);
    const facts = { figure: kind.name, frame: shownIn(kind, frame), state, layer, head };
    const said = { version: desk.version(), link: desk.link() };
    return { ...facts, ...said, title: kind.title, cell: room, quantities };
  };
  const menu = addMenu(room, kind.title, what, desk.fail);
  const made: Made = { view, room, absence, shown, menu, width: 0 };
  return made;
}

type Desk = Reach & Saving;

/** A figure of the first sequence alone must not say that it is a mean. */
function shownIn({ averaged }: ViewKind, frame: Frame): Frame {
  return averaged || frame.sequences === 1 ? frame : { ...frame, sequences: 1 };
}

/** The page is drawn anew for every step of a progress; the views need not be. */
function isDrawn({ shown, width }: Made, frame: Frame, context: Context): boolean {
  const { state, theme, pointed, layer, head, frames } = context;
  const before = shown.context;
  const isSameHead = before.layer === layer && before.head === head;
  const isSameLook = before.theme === theme && before.pointed === pointed && width === innerWidth;
  const isSameRun = shown.frame === frame && frames.every((one, i) => before.frames[i] === one);
  const isSameCount = before.frames.length === frames.length;
  return isSameHead && isSameLook && isSameRun && isSameCount && before.state === state;
}

/** A panel that has nothing of any side to show is taken away, unless it is the only one. */
function isWanted({ kind, section }: Panel, all: readonly Panel[], frames: readonly Frame[]) {
  const { fits } = kind;
  const isOnly = all.length === 1;
  section.hidden = fits !== undefined && !isOnly && !frames.some(fits);
  return !section.hidden;
}

/** Draws one side's frame into all panels. */
export function drawPanels(
  panels: readonly Panel[],
  side: Side,
  frame: Frame,
  context: Omit<Context, 'layer' | 'head'>,
  at: { readonly layer: number; readonly head: number },
  desk: Desk,
): void {
  const whole = { ...context, ...selectedHead(frame, at.layer, at.head) };
  for (const panel of panels) {
    if (!isWanted(panel, panels, context.frames)) continue;
    const made = (panel.made[side] ??= make(panel, side, { frame, context: whole }, desk));
    if (isDrawn(made, frame, whole)) continue;
    made.shown = { frame, context: whole };
    made.width = innerWidth;
    made.menu.hidden = context.state.hide.includes('save');
    if (made.absence) {
      made.absence.hidden = panel.kind.fits!(frame);
      made.room.hidden = !made.absence.hidden;
      if (made.room.hidden) continue;
    }
    made.view.update(frame, whole);
    stamp(panel.kind, frame, made);
  }
}

/** Under every figure stands what is needed to get its numbers again. */
function stamp(kind: ViewKind, frame: Frame, { room, menu }: Made): void {
  if (kind.stamped) return;
  const line = room.querySelector<HTMLElement>('.stamp') ?? document.createElement('p');
  line.className = 'stamp';
  say(line, stampWords(shownIn(kind, frame)));
  if (line.nextElementSibling !== menu) menu.before(line);
}
