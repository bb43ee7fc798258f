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
  settingsOf,
  tablesOf,
  type Settings,
  type Tables,
} from './settings';
import type { NamedLab } from './words';

const SIDE_KEYS = ['leftRun', 'rightRun'] as const;
export type Side = 0 | 1;

/** The labs of the visit are outside the class, so that they keep their state while the reader visits another room. */
let models: Models | undefined;
let labs: readonly [Lab, Lab] | undefined;
let tables: Tables = { fromScratch: [], fineTune: [] };

const prepare = async (settings: Settings) =>
  isFineTune(settings) ? setUpFineTune(settings, models!) : setUpFromScratch(settings);

export class Pair {
  readonly labs: readonly [Lab, Lab];
  #context;
  #describe: Describe | undefined;
  #isPausedWhileHidden = false;

  /**
   * Uses the labs of the visit, or creates two.
   * @param isOwn whether to create two labs, which end with the scope and are not saved
   */
  constructor(context: Context, scope: Scope, isOwn = false) {
    this.#context = context;
    this.labs = isOwn
      ? [new Lab(0, prepare, false), new Lab(1, prepare, false)]
      : (labs ??= [new Lab(0, prepare), new Lab(1, prepare)]);
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
    const names = namesOf([left.settings, right.settings], tables);
    return [this.#describeLab(left, names[0]), this.#describeLab(right, names[1])];
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
    await Promise.all(
      this.requestedSettings().map(({ settings }, i) => this.labs[i as Side].start(settings)),
    );
  }

  /**
   * Applies the state's settings. If they need another training, both labs restart, so that both are at the same step.
   */
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

  async #restore(settings: readonly Settings[]): Promise<void> {
    await Promise.all(this.labs.map((lab, i) => lab.restore(settings[i]!)));
    const isSame = this.labs.every((lab, i) => lab.settings === settings[i]);
    if (isSame && this.step > 0)
      this.#context.notify(`Your training is restored at step ${this.step}.`);
  }

  get isRunning(): boolean {
    return this.labs.some((lab) => lab.isRunning);
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

  get step(): number {
    return Math.min(...this.labs.map(({ step }) => step));
  }

  /** By how many steps Train prolongs a finished training: as many as a new training has by default. */
  get moreSteps(): number {
    const rows = settingsOf(this.labs[0].settings, tables);
    return Number(rows.find(({ name }) => name === 'steps')!.default);
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
    if (this.isRunning) void this.pause();
    else if (this.labs.some(({ stage }) => stage === 'ready')) this.train();
    else if (this.labs.some(({ stage }) => stage === 'ended')) {
      this.change('both', { steps: this.steps + this.moreSteps });
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
