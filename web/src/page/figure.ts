/**
 * Draws a view as a figure: a heading, a cell for each subject on shared scales, an explanation of the picture, the
 * conditions of its numbers, and a menu to save it. Rooms and embeds consist of figures. A figure is not drawn while it
 * is outside the viewport.
 */
import { untracked } from '@preact/signals-core';
import { render, html, type TemplateResult } from 'lit';
import { framesOf, viewApiOf, Scope, type Context, type SubjectEntry } from './context';
import { headShown, modelHead, type Frame, type Head } from '../frame';
import { atStep, modelIdOf, parseSubject, printSubject } from '../ask/subject';
import { differingKeys, type State } from '../ask/state';
import type { Theme } from '../plot/color';
import { isPrinting } from '../plot/paper';
import { INPUTS } from '../ask/question';
import {
  addKinds,
  addRecording,
  makeMenu,
  fileName,
  downloadFile,
  KINDS,
  drawOnPaper,
  type Kind,
} from '../save/menu';
import { explainTerms } from './terms';
import { addEmbedButton } from './controls';
import {
  hasNumbersOf,
  lackWords,
  addElement,
  numbersOf,
  sequencesOf,
  setText,
  type DrawOptions,
  type Update,
  type View,
} from './view';
import { CLASS_WORDS, stampWords } from '../words';

export interface FigureLook {
  /** Whether the figure is drawn also outside the viewport. */
  readonly isEager?: boolean;
  /** Whether the room shows the heading, conditions and menu, so that the figure has none. */
  readonly isBare?: boolean;
  /** Whether the room's heading is also the figure's. Then the tab order has the picture before the controls. */
  readonly isMain?: boolean;
  /** Whether only the controls that the host requests are shown. */
  readonly isEmbed?: boolean;
  /** The figure's heading, if it is not the view's question. */
  readonly question?: string;
  /** How to read the picture in this room, if not all that the view says of it is true here. */
  readonly how?: string;
  /** Returns the conditions that the room states. The figure leaves them out; saved files state all conditions. */
  readonly roomConditions?: () => readonly string[];
  /** Returns the head to show of a frame if the figure's view alone does not decide it. */
  readonly headOf?: (frame: Frame) => Head;
  /** Whether the conditions of the numbers are in the menu at the right instead of below each picture. */
  readonly isUnstamped?: boolean;
  /** Returns a cell's title if it is not the model's, what it states below, and the color of both, a CSS variable's name. */
  readonly about?: (
    frame: Frame,
    index: number,
  ) => {
    readonly title?: string;
    readonly text: TemplateResult;
    readonly color: string;
  };
  /** Gives a cell what the room's style sheet reads: its place in a grid, its classes. */
  readonly arrange?: (cell: HTMLElement, index: number) => void;
  /** Returns options for one cell, in addition to those for all cells. */
  readonly extra?: (frame: Frame, index: number) => Partial<DrawOptions>;
}

interface Cell {
  readonly root: HTMLElement;
  readonly title: HTMLElement;
  readonly badge: HTMLElement;
  readonly about: HTMLElement | undefined;
  readonly stamp: HTMLElement;
  conditions: string;
  readonly update: Update;
  readonly scope: Scope;
}

/** Returns a key for each subject's cell, the same while the reader steps through a model's checkpoints. */
function cellKeys(subjects: readonly string[]): string[] {
  const names = subjects.map((subject) => {
    const parsed = parseSubject(subject);
    return parsed ? printSubject(atStep(parsed, undefined)).replace(/@step\d+/, '') : subject;
  });
  return names.map(
    (name, i) => `${name} ${names.slice(0, i).filter((other) => other === name).length}`,
  );
}

/** Marks when the first picture is drawn, which may be a saved one, and when the first of a model that has run here. */
function markFirst({ isSaved }: Frame): void {
  for (const name of isSaved ? ['first-picture'] : ['first-picture', 'first-sink'])
    if (!performance.getEntriesByName(name).length) performance.mark(name);
}

export class Figure {
  readonly root: HTMLElement;
  readonly #view: View;
  readonly #context: Context;
  readonly #look: FigureLook;
  readonly #scope: Scope;
  readonly #grid: HTMLElement;
  readonly #missingPlace: HTMLElement;
  #measuredPlace: HTMLElement | undefined;
  readonly #cells = new Map<string, Cell>();
  #entries: readonly SubjectEntry[] = [];
  /** The buttons of the view's files; a recording has all that was measured, and its button is not among them. */
  #saveButtons: readonly HTMLButtonElement[] = [];
  #drawnState: State | undefined;
  #isVisible = false;
  #isDue = false;
  /** Set while a picture is drawn for a file. */
  #paperTheme: Theme | undefined;

  constructor(place: Element, view: View, context: Context, parent: Scope, look: FigureLook = {}) {
    this.#view = view;
    this.#context = context;
    this.#look = look;
    this.#scope = new Scope(parent);
    // In an embed, <sink-scope> itself has the label, and a host page may embed one view several times.
    this.root = addElement(place, `figure view-${view.name}`, look.isEmbed ? 'div' : 'section');
    this.root.dataset.view = view.name;
    if (!look.isEmbed) this.root.setAttribute('aria-label', view.title);
    if (look.isMain) this.root.classList.add('main');
    if (!look.isBare && !look.isMain) this.#addHeader();
    this.#grid = addElement(this.root, 'cells');
    this.#missingPlace = addElement(this.root, 'lacks');
    if (look.isMain) this.#addHeader();
    const watcher = new IntersectionObserver(
      (entries) => {
        // One call reports all changes since the last one, the newest at the end.
        const { isIntersecting } = entries.at(-1)!;
        // A figure whose cells stand in a grid of the room has no box of its own, which would never count as visible.
        const hasBox = getComputedStyle(this.root).display !== 'contents';
        this.#isVisible = isIntersecting || !hasBox;
        if (this.#isVisible && this.#isDue) this.#draw();
      },
      { rootMargin: '120px' },
    );
    watcher.observe(this.root);
    this.#scope.onEnd(() => watcher.disconnect());
    this.#scope.onEnd(() => this.root.remove());
    // While the page prints, every figure counts as visible.
    this.#scope.effect(() => {
      if (isPrinting.value && this.#isDue) untracked(() => this.#draw());
    });
  }

  end(): void {
    this.#scope.end();
  }

  update(entries: readonly SubjectEntry[]): void {
    const isSame =
      entries.length === this.#entries.length &&
      entries.every(({ subject, frame, isStale }, i) => {
        const previousEntry = this.#entries[i]!;
        return (
          previousEntry.subject === subject &&
          previousEntry.frame === frame &&
          previousEntry.isStale === isStale
        );
      });
    this.#entries = entries;
    this.#updateSaveButtons();
    // Typing changes no picture until the text is tokenized.
    const { state } = this.#context;
    const isTypedOnly =
      this.#drawnState && differingKeys(state.peek(), this.#drawnState) === 'prompt';
    if (isSame && isTypedOnly && !this.#isDue) return;
    this.#isDue = true;
    const isSeen = this.#isVisible || isPrinting.peek() || this.#estimateVisibility();
    if (isSeen || this.#look.isEager) this.#draw();
  }

  /** Offers files only of what is measured. */
  #updateSaveButtons(): void {
    const isMeasured = framesOf(this.#entries).some((frame) => this.#isReady(frame));
    for (const button of this.#saveButtons) button.disabled = !isMeasured;
  }

  /** Estimates whether the figure is near the viewport. The estimate counts until the observer's first report. */
  #estimateVisibility(): boolean {
    if (this.#cells.size) return false;
    const { top, bottom } = this.root.getBoundingClientRect();
    return (this.#isVisible = bottom > -120 && top < innerHeight + 120);
  }

  /** Returns what a saved file has: the picture, its sentences, its numbers and their conditions. */
  #savedFigure() {
    const state = this.#context.state.peek();
    const frames = framesOf(this.#entries);
    const numbers = frames.map((frame) => {
      const conditions = { ...this.#conditionsOf(frame), ...this.#ownConditions(frame) };
      const options = { at: this.#headOf(frame), state, sequences: conditions.sequences };
      const quantities = this.#isReady(frame) ? numbersOf(this.#view, frame, options) : [];
      return { frame: conditions, sequences: frame.sequences, quantities };
    });
    return {
      name: this.#view.name,
      title: this.#view.title,
      place: this.#grid,
      says: frames
        .filter((frame) => this.#isReady(frame))
        .map((frame) => this.#view.says(frame, this.#headOf(frame), state)),
      numbers,
      facts: this.#context.facts(),
      drawOnPaper: <T>(take: () => T): T => {
        const draw = (theme?: Theme) => {
          this.#paperTheme = theme;
          this.#draw();
        };
        return drawOnPaper(this.#grid, draw, take);
      },
    };
  }

  #addHeader(): void {
    const { title, question, formula, source } = this.#view;
    const how = this.#look.how ?? this.#view.how;
    const header = addElement(this.root, 'figure-head', 'header');
    const titlePlace = addElement(header, 'figure-title');
    render(
      html`<h2>${title}</h2>
        <p class="question">
          ${this.#look.question ? explainTerms(this.#look.question) : question}
        </p>`,
      titlePlace,
    );
    const howMenu = addElement(header, 'how', 'details') as HTMLDetailsElement;
    makeMenu(howMenu);
    render(
      html`<summary aria-label="How to read ${title}">…</summary>
        <div>
          <p>${explainTerms(how)}</p>
          <p class="hint">
            ${this.#look.isUnstamped ? '' : explainTerms('The line below states the conditions: ε, T, start token, number of prompts.')}
          </p>
          ${formula ? html`<p><code>${formula}</code></p>` : ''}
          ${source ? html`<p class="hint">${source}</p>` : ''}
        </div>`,
      howMenu,
    );
    const save = async (kind: Kind) => {
      const { fileOf } = await import('../save/file');
      const figure = this.#savedFigure();
      downloadFile(await fileOf(kind, figure), fileName(figure, kind));
    };
    const menu = addKinds(
      header,
      title,
      KINDS,
      (kind) => void save(kind).catch(this.#context.fail),
    );
    this.#saveButtons = [...menu.querySelectorAll('button')];
    this.#updateSaveButtons();
    addRecording(
      menu,
      async () => {
        const queue = this.#context.engine.peek()!.queue;
        // What a room has kept of other subjects has no run that could be recorded.
        const frames = framesOf(this.#entries).filter(({ subject }) =>
          queue.entries.peek().has(subject),
        );
        const source = INPUTS[this.#context.state.peek().input];
        const files = [];
        for (const frame of frames)
          files.push({
            name: `${fileName({ name: 'recording', numbers: [{ frame }] }, '')}safetensors`,
            bytes: await queue.record(frame.subject, source),
          });
        return files;
      },
      this.#context.fail,
    );
    const embedButton = addEmbedButton(howMenu.lastElementChild as HTMLElement, title, () =>
      this.#context.embed(this.#view.name, this.#context, this.#pinnedState()),
    );
    this.#scope.effect(() => {
      const { hide, controls } = this.#context.state.value;
      const { isEmbed } = this.#look;
      menu.hidden = hide.includes('save') || Boolean(isEmbed && !controls.includes('save'));
      embedButton.hidden = hide.includes('links') || Boolean(isEmbed);
      howMenu.hidden = hide.includes('how');
    });
  }

  #fits(frame: Frame): boolean {
    return this.#view.fits?.(frame) ?? true;
  }

  /** Returns what an embed needs of the state: the figure's subjects, and their head if all show the same one. */
  #pinnedState(): Partial<State> {
    // Settings of a model may differ only in their question, so a subject can be in the list twice.
    const shown = [...new Set(this.#entries.map(({ subject }) => subject))];
    const [first, ...rest] = framesOf(this.#entries).map((frame) =>
      modelHead(frame, this.#headOf(frame)),
    );
    const isSharedHead =
      first && rest.every((at) => at.layer === first.layer && at.head === first.head);
    return { shown, at: 0, ...(isSharedHead ? first : {}) };
  }

  #headOf(frame: Frame) {
    const { headOf } = this.#look;
    return headOf?.(frame) ?? headShown(frame, [this.#view], this.#context.state.peek());
  }

  #ownConditions(frame: Frame) {
    return this.#view.conditions?.(frame, this.#context.state.peek()) ?? {};
  }

  /** Returns the frame for the stamp, which must not say that numbers of the first prompt are means. */
  #conditionsOf(frame: Frame): Frame {
    return { ...frame, sequences: sequencesOf(this.#view, frame, this.#context.state.peek()) };
  }

  #addCell(): Cell {
    const scope = new Scope(this.#scope);
    const root = addElement(this.#grid, 'cell');
    const caption = addElement(root, 'cell-head', 'p');
    const title = addElement(caption, '', 'strong');
    const badge = addElement(caption, 'badge', 'span');
    const about = this.#look.about && addElement(caption, 'about', 'span');
    const update = this.#view.draw(addElement(root, 'cell-body'), viewApiOf(this.#context, scope));
    const stamp = addElement(root, 'stamp', 'p');
    scope.onEnd(() => root.remove());
    return { root, title, badge, about, stamp, conditions: '', update, scope };
  }

  #draw(): void {
    this.#isDue = false;
    this.#drawnState = this.#context.state.peek();
    const clusters = this.#clusters();
    const keys = cellKeys(clusters.map(({ lead }) => this.#clusterKey(lead.subject)));
    for (const [key, { scope }] of this.#cells) {
      const lead = clusters[keys.indexOf(key)]?.lead;
      if (lead && (!lead.frame || this.#fits(lead.frame))) continue;
      scope.end();
      this.#cells.delete(key);
    }
    this.#grid.style.setProperty('--cells', String(Math.max(1, clusters.length)));
    const frames = framesOf(this.#entries).filter((frame) => this.#isReady(frame));
    let position = 0;
    clusters.forEach(({ lead, members }, i) => {
      const isReady = lead.frame && this.#isReady(lead.frame);
      const cell = this.#cells.get(keys[i]!) ?? (isReady ? this.#addCell() : undefined);
      if (!cell) return;
      this.#cells.set(keys[i]!, cell);
      // Moves a cell only if its position changes, since moving takes the focus from the cell's controls.
      const sibling = this.#grid.children[position++] ?? null;
      if (sibling !== cell.root) this.#grid.insertBefore(cell.root, sibling);
      this.#look.arrange?.(cell.root, i);
      cell.root.classList.toggle('stale', lead.isStale || !isReady);
      const group = framesOf(members).filter((frame) => frames.includes(frame));
      cell.title.parentElement!.hidden =
        !this.#look.about && (clusters.length === 1 || Boolean(this.#look.isBare));
      if (isReady) this.#fill(cell, lead.frame!, { frames, group }, i);
      // Keeps the last picture but not its stamp: the conditions that the room states may have changed.
      else this.#stamp(cell);
    });
    if (this.#look.isUnstamped) this.#drawConditions();
    const notes = framesOf(this.#entries).map((frame) => lackWords(this.#view, frame));
    render(
      notes.filter(Boolean).map((text) => html`<p class="hint" data-lacks>${text}</p>`),
      this.#missingPlace,
    );
  }

  /** States the conditions of all cells in the menu. */
  #drawConditions(): void {
    const menu = this.root.querySelector('.how > div')!;
    this.#measuredPlace ??= addElement(menu, 'hint', 'p');
    const conditions = [...this.#cells.values()].flatMap((cell) => cell.conditions.split(' · '));
    const threshold = conditions.includes('ε = 0.3')
      ? ' ε is the threshold of Gu et al. 2025.'
      : '';
    const words = `How measured: ${[...new Set(conditions)].join(' · ')}.${threshold}`;
    render(explainTerms(words), this.#measuredPlace);
  }

  #clusters(): { readonly lead: SubjectEntry; readonly members: readonly SubjectEntry[] }[] {
    const isReady = ({ frame }: SubjectEntry) => frame && this.#isReady(frame);
    if (this.#view.drawsAllSubjects) {
      const lead = this.#entries.find(isReady);
      return lead
        ? [{ lead, members: this.#entries }]
        : this.#entries.slice(0, 1).map((lead) => ({ lead, members: [lead] }));
    }
    if (!this.#view.drawsAllSettings)
      return this.#entries.map((lead) => ({ lead, members: [lead] }));
    const membersByModel = new Map<string, SubjectEntry[]>();
    for (const entry of this.#entries) {
      const key = this.#clusterKey(entry.subject);
      membersByModel.set(key, [...(membersByModel.get(key) ?? []), entry]);
    }
    return [...membersByModel.values()].map((members) => ({
      lead: members.find(isReady) ?? members[0]!,
      members,
    }));
  }

  #fill(
    cell: Cell,
    frame: Frame,
    { frames, group }: Pick<DrawOptions, 'frames' | 'group'>,
    i: number,
  ): void {
    const { root, title, badge, about, update } = cell;
    const { extra } = this.#look;
    const words = this.#look.about?.(frame, i);
    if (words) {
      title.parentElement!.style.setProperty('--own', `var(${words.color})`);
      render(words.text, about!);
    }
    root.dataset.subject = frame.subject;
    setText(title, words?.title ?? (group.length > 1 ? frame.model.title : frame.title));
    const ownConditions = this.#ownConditions(frame);
    const classes = [...group.map((member) => member.class), ownConditions.class];
    const kind = classes.includes('counterfactual') ? 'counterfactual' : frame.class;
    setText(badge, CLASS_WORDS[kind]);
    badge.hidden = kind === 'measured';
    update(frame, {
      state: this.#context.state.peek(),
      theme: this.#paperTheme ?? this.#context.theme.peek(),
      at: this.#headOf(frame),
      frames,
      group,
      ...extra?.(frame, i),
    });
    // The settings of a model may differ in T, since one may end at the model's context.
    const T = Math.max(...group.map((member) => member.T));
    const sharedTitle = this.#view.drawsAllSubjects
      ? { title: [...new Set(group.map((member) => member.title))].join(', ') }
      : {};
    const frameConditions = { ...this.#conditionsOf(frame), T, ...sharedTitle };
    cell.conditions = stampWords({ ...frameConditions, ...ownConditions, class: kind });
    this.#stamp(cell);
    markFirst(frame);
  }

  #stamp({ stamp, conditions }: Cell): void {
    const { isBare, roomConditions } = this.#look;
    const statedConditions = roomConditions?.() ?? [];
    const unstatedConditions = conditions
      .split(' · ')
      .filter((words) => !statedConditions.includes(words));
    const words = isBare || this.#look.isUnstamped ? '' : unstatedConditions.join(' · ');
    stamp.hidden = !words;
    if (stamp.textContent !== words) render(explainTerms(words, true), stamp);
  }

  /** Returns the key that subjects in one cell share: their model, if the view draws all its settings. */
  #clusterKey(subject: string): string {
    const parsed = this.#view.drawsAllSettings ? parseSubject(subject) : undefined;
    return parsed ? modelIdOf(parsed) : subject;
  }

  #isReady(frame: Frame): boolean {
    const { describe } = this.#context.engine.peek()?.models ?? {};
    // A saved frame has all numbers of its view; it may be drawn before the engine runs.
    return this.#fits(frame) && (!describe || hasNumbersOf(this.#view, frame, describe));
  }
}
