/** The two labs of a visit: they follow the page's state, and train, pause and reset together. */
import type { Describe } from 'sinkscope';
import type { Context, Scope } from '../page/context';
import type { Models } from '../run/models';
import { setUp as setUpFromScratch } from './from_scratch';
import { Lab } from './lab';
import { setUp as setUpFineTune } from './fine_tune';
import {
  commandOf,
  isFineTune,
  namesOf,
  printSettings,
  readSettings,
  recipeOf,
  tablesOf,
  type Settings,
  type Tables,
} from './settings';
import { deleteTrainings, type SavedTraining } from './store';
import type { NamedLab } from './words';

const SIDE_KEYS = ['leftRun', 'rightRun'] as const;
export type Side = 0 | 1;
/** By how many steps Train prolongs a finished training. */
const MORE_STEPS = 400;

/** The labs of the visit are outside the class, so that they keep their state while the reader visits another room. */
let models: Models | undefined;
let labs: readonly [Lab, Lab] | undefined;
/** Identifies the last start of these labs, by any pair, so that an outdated one can stop. */
const starts = { last: {} };
let tables: Tables = { fromScratch: [], fineTune: [] };

const prepare = async (settings: Settings) =>
  isFineTune(settings) ? setUpFineTune(settings, models!) : setUpFromScratch(settings);

export class Pair {
  readonly labs: readonly [Lab, Lab];
  readonly #isOwn: boolean;
  #context;
  #describe: Describe | undefined;
  #isPausedWhileHidden = false;
  #isCatchingUp = false;
  readonly #starts: { last: object };

  /**
   * Uses the labs of the visit, or creates two.
   * @param isOwn whether to create two labs, which end with the scope and are not saved
   */
  constructor(context: Context, scope: Scope, isOwn = false) {
    this.#context = context;
    this.#isOwn = isOwn;
    const createLabs = () => [new Lab(0, prepare), new Lab(1, prepare)] as const;
    this.labs = isOwn ? createLabs() : (labs ??= createLabs());
    this.#starts = isOwn ? { last: {} } : starts;
    if (isOwn) scope.onEnd(() => this.labs.forEach((lab) => void lab.end().catch(() => {})));
    document.addEventListener('visibilitychange', this.#updateVisibility);
    scope.onEnd(() => document.removeEventListener('visibilitychange', this.#updateVisibility));
    scope.onEnd(() => void this.pause());
  }

  get tables(): Tables {
    return tables;
  }

  get columns(): readonly string[] {
    return this.#describe?.training?.log.map(({ name }) => name) ?? [];
  }

  get isReady(): boolean {
    return this.#describe !== undefined;
  }

  /** Fetches the engine that trains; can be called again after a failure. */
  async openEngine(openModels: Models): Promise<void> {
    models = openModels;
    const { describe } = await this.labs[0].engine();
    this.#describe = describe;
    tables = tablesOf(describe, openModels.zoo.cards);
  }

  requestedSettings() {
    const { value } = this.#context.state;
    return SIDE_KEYS.map((side) => readSettings(value[side], tables));
  }

  namedLabs(): readonly [NamedLab, NamedLab] {
    const [left, right] = this.labs;
    const fullNames = namesOf([left.settings, right.settings], tables);
    // The first part that differs names a model, if it can; the others are in the settings.
    const parts = fullNames.map((name) => name.replace(/ \(.*?\)/g, '').split(', '));
    const shortNames = parts.map((own, i) => own.find((word) => !parts[1 - i]!.includes(word)));
    const isShort = shortNames.every(Boolean) && !isFineTune(left.settings);
    const names = isShort ? shortNames : fullNames;
    return [this.#describeLab(left, names[0]!), this.#describeLab(right, names[1]!)];
  }

  #describeLab(lab: Lab, name: string): NamedLab {
    const { config } = lab.setup?.options ?? {};
    const modelConfig = config as
      { sinkscope?: { attention?: { operation?: string } } } | undefined;
    const operationName = modelConfig?.sinkscope?.attention?.operation ?? 'softmax';
    const operation = this.#describe?.operations.find(
      (operation) => operation.name === operationName,
    );
    return { name, lab, operation, command: commandOf(lab.settings, tables) };
  }

  change(side: Side | 'both', more: Settings): void {
    const texts = this.requestedSettings().map(({ settings }, i) =>
      printSettings(side === 'both' || side === i ? { ...settings, ...more } : settings, tables),
    );
    this.#context.set({ leftRun: texts[0]!, rightRun: texts[1]! });
  }

  async reset(): Promise<void> {
    const isLast = this.#begin();
    const settings = this.requestedSettings().map(({ settings }) => settings);
    const key = this.#keyOf(settings);
    // A run that is stopped saves its last steps.
    await this.pause();
    if (key !== undefined) void deleteTrainings(key);
    if (isLast()) await this.#start(settings, key);
  }

  /** Makes earlier starts outdated; the returned function says whether this start is still the last one. */
  #begin(): () => boolean {
    const start = (this.#starts.last = {});
    return () => start === this.#starts.last;
  }

  async #start(
    settings: readonly Settings[],
    key: string | undefined,
    savedTrainings: readonly (SavedTraining | undefined)[] = [],
  ): Promise<void> {
    await Promise.all(this.labs.map((lab, i) => lab.start(settings[i]!, key, savedTrainings[i])));
  }

  /**
   * Returns all that the results of both trainings depend on: the version of the build and both recipes. Labs of their
   * own are not saved, and have no key.
   */
  #keyOf(settings: readonly Settings[]): string | undefined {
    if (this.#isOwn) return undefined;
    return [this.#describe!.version, ...settings.map(recipeOf)].join(' ');
  }

  /** Applies the state's settings. If they need another training, both labs restart, so that both are at the same step. */
  applyState(): void {
    const settingsOfState = this.requestedSettings().map(({ settings }) => settings);
    const needsRestart = this.labs.some(
      (lab, i) =>
        !('seed' in lab.settings) || recipeOf(lab.settings) !== recipeOf(settingsOfState[i]!),
    );
    if (needsRestart) return void this.#restore(settingsOfState);
    const { speed } = this.labs[0].settings;
    this.labs.forEach((lab, i) => lab.adjust(settingsOfState[i]!));
    if (this.isRunning && speed !== settingsOfState[0]!.speed)
      void this.pause().then(() => this.train());
  }

  /** Restores the saved trainings, and starts the others. Another tab may be training, so this deletes none that opens. */
  async #restore(settings: readonly Settings[]): Promise<void> {
    const key = this.#keyOf(settings);
    const isLast = this.#begin();
    const savedTrainings = await Promise.all(
      this.labs.map((lab, i) => lab.readSaved(settings[i]!, key)),
    );
    if (!isLast()) return;
    await this.#start(settings, key, savedTrainings);
    if (!isLast()) return;
    // This build may refuse a saved state, whose later step would keep the new training from being saved.
    if (savedTrainings.some(Boolean) && this.labs.some(({ stage }) => stage === 'refused')) {
      if (key !== undefined) void deleteTrainings(key);
      return this.#start(settings, key);
    }
    if (this.step > 0) this.#context.notify(`Your training is restored at step ${this.step}.`);
  }

  get isRunning(): boolean {
    return this.labs.some((lab) => lab.isRunning);
  }

  /** Whether no model has trained a step, and none has failed. */
  get isUntrained(): boolean {
    return !this.isRunning && this.labs.every(({ step, error }) => step === 0 && !error);
  }

  /** The word of the button that trains: a paused or restored training continues. */
  get trainWord(): string {
    if (this.isRunning) return 'Pause';
    return this.step > 0 && !this.isOver ? 'Continue' : 'Train';
  }

  /** Whether Train can do something; one lab that can be trained is enough. */
  get canTrain(): boolean {
    const stages = this.labs.map(({ stage }) => stage);
    return !stages.includes('loading') && (stages.includes('ready') || stages.includes('ended'));
  }

  /** Whether neither lab has steps left; false if both diverged. */
  get isOver(): boolean {
    const stages = this.labs.map(({ stage }) => stage);
    return (
      stages.every((stage) => stage === 'ended' || stage === 'diverged') && stages.includes('ended')
    );
  }

  /** The step that both labs have reached. */
  get step(): number {
    return Math.min(...this.labs.map(({ step }) => step));
  }

  get steps(): number {
    return Math.max(...this.labs.map(({ settings }) => Number(settings.steps) || 0));
  }

  get secondsLeft(): number {
    return Math.max(
      ...this.labs.map((lab) => (Number(lab.settings.steps) - lab.step) * lab.stepSeconds),
    );
  }

  async pause(): Promise<void> {
    await Promise.all(this.labs.map((lab) => lab.pause()));
  }

  /** Pauses both models at one step: the one behind trains to the step of the other, unless it is paused again. */
  async #pauseTogether(): Promise<void> {
    const isSecondPause = this.#isCatchingUp;
    this.#isCatchingUp = true;
    await this.pause();
    const last = Math.max(...this.labs.map(({ step }) => step));
    const behind = isSecondPause ? [] : this.labs.filter(({ step }) => step < last);
    await Promise.all(behind.map((lab) => lab.run(last)));
    this.#isCatchingUp = false;
  }

  train(): void {
    for (const lab of this.labs) {
      const { steps, speed } = lab.settings;
      void lab.run(Number(steps), Number(speed) || Infinity);
    }
  }

  trainOneStep(): void {
    for (const lab of this.labs) void lab.run(lab.step + 1);
  }

  toggle(): void {
    if (this.isRunning) void this.#pauseTogether();
    else if (this.labs.some(({ stage }) => stage === 'ready')) this.train();
    else if (this.labs.some(({ stage }) => stage === 'ended')) {
      this.change('both', { steps: this.steps + MORE_STEPS });
      queueMicrotask(() => this.train());
    }
  }

  readonly #updateVisibility = () => {
    if (document.hidden && this.isRunning) {
      this.#isPausedWhileHidden = true;
      void this.pause();
    } else if (!document.hidden && this.#isPausedWhileHidden) {
      this.#isPausedWhileHidden = false;
      this.#context.notify('Training paused while this tab was hidden.');
      this.train();
    }
  };
}
