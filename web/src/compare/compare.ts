/**
 * The comparison: small multiples and a table of two to six models, in place of the two sides. A first
 * look takes one prompt; the study takes as many as are asked for.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { shown as allows } from '../controls';
import type { Theme } from '../plot/color';
import { hand } from '../save/menu';
import type { Session } from '../session';
import { swaps } from '../side';
import type { State } from '../state';
import { promptsOf, readPrompts, type PromptFile } from '../study/corpus';
import { promptsCsv, studyJson, tableCsv } from '../study/files';
import { Runner } from '../study/runner';
import type { Sorting } from '../study/table';
import { part } from '../views/view';
import { hubName, isOfHub, sentence } from '../open/words';
import type { Zoo } from '../zoo';
import './compare.css';
import {
  editForm,
  nameOf,
  pickControls,
  settingControls,
  studyControls,
  type SaveKind,
} from './controls';
import { Multiples, type Shown } from './multiples';
import { parsePicks, type Parsed } from './picks';
import { results } from './results';
import { StepOffer } from './steps';
import type { ReportedRow } from './table';

/** What the comparison reaches of the page. */
export interface CompareDesk {
  readonly session: Session;
  readonly zoo: Zoo;
  readonly set: (change: Partial<State>) => void;
  /** Lets the reader open a model, of this name where one is given. */
  readonly open: (name?: string) => void;
  readonly link: () => string;
  /** Models that the two sides still hold. */
  readonly shownElsewhere: () => readonly string[];
}

/** Typing waits this long for the next key. */
const TYPING_MS = 250;

export class Compare {
  readonly #root: HTMLElement;
  readonly #desk: CompareDesk;
  readonly #runner: Runner;
  readonly #multiples: Multiples;
  readonly #steps: StepOffer;
  readonly #head: HTMLElement;
  readonly #middle: HTMLElement;
  #state: State | undefined;
  #theme: Theme = 'light';
  #width = 0;
  #parsed: Parsed = { picks: new Map(), problems: [] };
  #file: PromptFile | undefined;
  /** Counts the files, and the ways of splitting them. */
  #files = 0;
  #prompts: readonly string[] = [];
  /** The question that a study was asked for; of others there is a first look. */
  #studied: { readonly setting: string; readonly n: number } | undefined;
  #sorting: Sorting = { name: '', descending: true };
  /** The operation that the form of what-ifs offers. */
  #whatIf = 'sigmoid';
  #error = '';
  #queued = false;
  #typing = 0;

  constructor(place: Element, desk: CompareDesk) {
    this.#desk = desk;
    this.#root = document.createElement('section');
    this.#root.id = 'compare';
    this.#root.setAttribute('aria-labelledby', 'compare-title');
    place.after(this.#root);
    this.#head = part(this.#root, 'compare-head');
    this.#middle = part(this.#root, 'compare-middle');
    this.#runner = new Runner({
      models: desk.session.models,
      operations: desk.session.describe.operations,
      shownElsewhere: desk.shownElsewhere,
      changed: () => this.#queue(),
    });
    this.#steps = new StepOffer(
      desk.session.models,
      () => this.#queue(),
      (error) => this.#fail(error),
    );
    this.#multiples = new Multiples(part(this.#root, 'compare-figures'), {
      facts: () => this.#facts(),
      fail: (error) => this.#fail(error),
    });
  }

  /** The page's state, each time the page is drawn. */
  update(state: State, theme: Theme): void {
    const before = this.#state;
    const isSame = before === state && theme === this.#theme && innerWidth === this.#width;
    this.#state = state;
    this.#theme = theme;
    this.#width = innerWidth;
    if (isSame) return;
    const isOn = state.compare.length > 0;
    this.#root.hidden = !isOn;
    if (!isOn) {
      if (before?.compare.length) this.#runner.close();
      return;
    }
    this.#parsed = parsePicks(state.compare);
    clearTimeout(this.#typing);
    const pause = before && before.prompt !== state.prompt ? TYPING_MS : 0;
    this.#typing = window.setTimeout(() => this.#ask(), pause);
    this.#queue();
  }

  /** A model was opened, or the engine has a new one: what failed may go now. */
  retry(): void {
    this.#runner.retry();
  }

  get #setting(): string {
    const { corpus, prompt, seed, bos, first, T, eps } = this.#state!;
    const own = corpus === 'text' ? prompt : '';
    const file = corpus === 'file' ? this.#files : 0;
    return JSON.stringify([corpus, own, file, seed, bos, first, T, eps]);
  }

  get #isReady(): boolean {
    return this.#state!.corpus !== 'file' || this.#prompts.length > 0;
  }

  #ask(): void {
    const state = this.#state!;
    if (!state.compare.length || !this.#isReady) return;
    const setting = this.#setting;
    const n = this.#studied?.setting === setting ? this.#studied.n : 1;
    const texts =
      state.corpus === 'heldout'
        ? this.#desk.zoo.heldOut
        : () => Promise.resolve(state.corpus === 'file' ? this.#prompts : []);
    this.#runner.ask({ picks: this.#parsed.picks, state, setting, n, texts });
  }

  #study(): void {
    this.#studied = { setting: this.#setting, n: this.#state!.prompts };
    this.#error = '';
    this.#ask();
  }

  #stop(): void {
    this.#studied = undefined;
    this.#runner.stop();
  }

  async #choose(file: File): Promise<void> {
    try {
      this.#take(await readPrompts(file));
    } catch (error) {
      this.#fail(error);
    }
  }

  #take(file: PromptFile): void {
    this.#file = file;
    this.#files++;
    this.#prompts = promptsOf(file.text, file.splitting);
    this.#error = '';
    this.#ask();
    this.#queue();
  }

  #fail(error: unknown): void {
    this.#error = sentence(error);
    this.#queue();
  }

  #queue(): void {
    if (this.#queued) return;
    this.#queued = true;
    requestAnimationFrame(() => {
      this.#queued = false;
      if (this.#state?.compare.length) this.#draw();
    });
  }

  /** What was measured of the picks, in their order. */
  get #shown(): Shown[] {
    return [...this.#parsed.picks.keys()].flatMap((key) => {
      const column = this.#runner.resultOf(key);
      return column ? [{ key, column, isStale: this.#runner.isStale(key) }] : [];
    });
  }

  /** What papers report of models like those that are picked as they were trained. */
  #reported(shown: readonly Shown[]): ReportedRow[] {
    const trained = shown.filter(({ column }) => column.pick.kind === 'model');
    const rows = trained.flatMap(({ column }) => {
      const card = this.#desk.zoo.cards.find(({ id }) => id === column.model.id);
      return card?.paper ? [{ ...card.paper, title: card.title }] : [];
    });
    const isFirst = (row: ReportedRow, i: number) =>
      rows.findIndex((one) => JSON.stringify(one) === JSON.stringify(row)) === i;
    return rows.filter(isFirst);
  }

  #facts() {
    const { corpus, prompt, seed } = this.#state!;
    const own = {
      heldout: { file: 'zoo/heldout.json' },
      text: { text: prompt },
      random: { seed },
      repeat: { seed },
      file: { ...this.#file, text: undefined },
    }[corpus];
    return {
      corpus: { kind: corpus, ...own },
      version: this.#desk.session.describe.version,
      link: this.#desk.link(),
      reported: this.#reported(this.#shown),
    };
  }

  #save(kind: SaveKind): void {
    const columns = this.#shown.filter(({ isStale }) => !isStale).map(({ column }) => column);
    const facts = this.#facts();
    const make = { CSV: tableCsv, 'CSV by prompt': promptsCsv, JSON: studyJson }[kind];
    const isJson = kind === 'JSON';
    const file = new Blob([make(columns, facts)], {
      type: isJson ? 'application/json' : 'text/csv',
    });
    const name = kind === 'CSV by prompt' ? 'study-prompts.csv' : `study.${kind.toLowerCase()}`;
    hand(file, `sinkscope-${name}`);
  }

  #draw(): void {
    const shown = this.#shown;
    this.#root.toggleAttribute('data-busy', this.#runner.work !== undefined);
    this.#root.classList.toggle('unsaved', !allows(this.#state!, 'save'));
    render(this.#headParts(), this.#head);
    this.#multiples.update(shown, this.#theme);
    render(
      results({
        shown,
        state: this.#state!,
        letters: this.#desk.session.describe.letters,
        trainingOf: (id) => this.#desk.zoo.cards.find((card) => card.id === id)?.training,
        reported: this.#reported(shown),
        sorting: this.#sorting,
        sort: (sorting) => {
          this.#sorting = sorting;
          this.#queue();
        },
      }),
      this.#middle,
    );
  }

  #headParts(): TemplateResult {
    const state = this.#state!;
    const setting = this.#settingParts();
    const shows = (name: string) => allows(state, name);
    return html`<h2 id="compare-title">Compare models</h2>
      <p class="how" ?hidden=${!shows('how')}>
        Models that read the same prompts, on shared scales. A first look takes one prompt; the
        study takes n of them and gives each number its spread.
      </p>
      ${
        shows('models')
          ? html`${pickControls(this.#pickParts())}
              <div class="pick-more">
                ${shows('swap') ? editForm(this.#pickParts()) : nothing}
                ${this.#steps.form(this.#parsed.picks, (texts) => this.#desk.set({ compare: texts }))}
              </div>`
          : nothing
      }
      ${shows('numbers') ? settingControls(setting) : nothing}
      ${
        shows('study')
          ? studyControls({
              ...setting,
              work: this.#runner.work,
              isReady: this.#isReady,
              run: () => this.#study(),
              stop: () => this.#stop(),
              save: (kind) => this.#save(kind),
              hasResults: shows('save') && this.#shown.some(({ isStale }) => !isStale),
            })
          : nothing
      }
      ${this.#messages()}`;
  }

  #pickParts() {
    const { session, zoo, set, open } = this.#desk;
    return {
      picks: this.#parsed.picks,
      choices: session.models.choices,
      factorOf: (id: string) => zoo.cards.find((card) => card.id === id)?.factor ?? '',
      operations: swaps(session.describe),
      pick: (texts: readonly string[]) => set({ compare: texts }),
      open: () => open(),
      whatIf: this.#whatIf,
      choose: (operation: string) => {
        this.#whatIf = operation;
        this.#queue();
      },
    };
  }

  #settingParts() {
    return {
      state: this.#state!,
      file: this.#file,
      count: this.#prompts.length,
      set: this.#desk.set,
      choose: (file: File) => void this.#choose(file),
      split: (splitting: PromptFile['splitting']) => this.#take({ ...this.#file!, splitting }),
    };
  }

  /** Why something is not there, and a way to put it right where there is one. */
  #messages(): TemplateResult {
    const { picks, problems } = this.#parsed;
    const { session, open } = this.#desk;
    const { models, describe } = session;
    const failures = [...picks].flatMap(([key, pick]) => {
      const text = this.#runner.failureOf(key);
      if (text === undefined) return [];
      const kept = this.#runner.resultOf(key) ? ' The last good result is shown.' : '';
      const title = nameOf(pick, models.choices, describe.operations);
      const name = isOfHub(pick.id) && !models.knows(pick.id) ? hubName(pick.id) : undefined;
      const button = html`<button type="button" @click=${() => open(name)}>Open ${name}</button>`;
      const said = `${title}: ${text.replace(/([^.!?])$/, '$1.')}${kept}`;
      return html`<p>${said} ${name ? button : nothing}</p>`;
    });
    const others = [...problems, ...(this.#error ? [this.#error] : [])];
    return html`<div
      class="compare-messages"
      role="alert"
      ?hidden=${!others.length && !failures.length}
    >
      ${others.map((text) => html`<p>${text}</p>`)}${failures}
    </div>`;
  }
}
