/** An opened recording, read like a run of one of its prompts, with means over all prompts. */
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, expect, expectInteger, rowNamed } from '../abi/errors.ts';
import { BackendResource } from '../engine/backend_resource.ts';
import { addUp, commonLength, meansOf, needsBase, summaryMetrics } from '../study/measure.ts';
import type { Tensor, Describe, Options } from '../abi/types.ts';
import type { ReadMessage } from '../engine/messages.ts';
import type { BackendApi, Link } from '../engine/link.ts';
import type { Edit, Where, RunRead, Conditions } from '../engine/types.ts';
import type { Recording as RecordingShape, RecordedArguments } from './types.ts';
import type { Sums } from '../study/measure.ts';
import type { MeasureOptions, MetricMean } from '../study/types.ts';

export class Recording implements RecordingShape {
  #file;
  #prompts: Map<number, Promise<number>> = new Map();
  #tensors: Map<string, { dtype: string; shape: readonly number[] }> = new Map();
  #ids: number[][] = [];

  readonly describe;
  constructor(
    link: Link,
    describe: Describe,
    makeMessage: () => Parameters<BackendApi['openRecording']>[1],
  ) {
    this.describe = describe;
    this.#file = new BackendResource(link, 'recording', (backend, job) => {
      this.#prompts.clear();
      return backend.openRecording(job, makeMessage());
    });
  }

  async open(options: Options) {
    const content = await this.#file.open(options);
    this.#tensors = new Map(content.tensors);
    this.#ids = content.ids;
    this.conditions = content.conditions;
    this.bytes = content.bytes;
    return this;
  }

  // @ts-expect-error open sets this before anybody gets the recording
  conditions: Conditions;
  bytes = 0;
  edits: readonly Edit[] = [];

  get architecture() {
    const { family, L, blocks, layers, H, G, K, U, D, V, F, E, operation, mask, windows } =
      this.conditions.model;
    const attention = { operation, parameters: {} };
    return { family, L, blocks, layers, H, G, K, U, D, V, F, E, attention, mask, windows };
  }

  get tokens() {
    return this.#ids[0] ?? [];
  }

  get tensors() {
    return this.#tensors;
  }

  #run(backend: BackendApi, recording: number, prompt: number) {
    const run = this.#prompts.get(prompt) ?? backend.openRecordedPrompt(recording, prompt);
    this.#prompts.set(prompt, run);
    return run.catch((error) => {
      this.#prompts.delete(prompt);
      throw error;
    });
  }

  async tensor(name: string, where: Where = {}) {
    check(name, 'text', 'name');
    checkOptions(where, { layer: 'number', head: 'number' });
    const { layer = -1, head = -1 } = where;
    const [tensor] = await this.#file.ask((backend, { recording }) =>
      backend.readRecordingTensor(recording, name, layer, head),
    );
    return tensor;
  }

  async #readAggregate(kind: string, name: string, args: { eps?: number }) {
    const row = rowNamed(this.describe.metrics, name, 'metric');
    checkOptions(args, { eps: 'number' });
    const fullName = `${kind}.${name}`;
    if (!this.#tensors.has(fullName)) throw missingError(name, fullName);
    const { data } = await this.tensor(fullName);
    const shape = row.shape.map((letter) => this.#sizeOf(letter));
    if (!row.arguments.includes('eps')) return { shape, data };
    const n = shape.reduce((a, b) => a * b, 1);
    const index = this.#thresholdIndex(args.eps);
    return { shape, data: data.slice(index * n, (index + 1) * n) };
  }

  /** Returns the index of a threshold, by default of the default one, or 0 without that. */
  #thresholdIndex(eps?: number) {
    const { eps: measuredEps } = this.conditions;
    const threshold = eps ?? this.describe.defaults.eps;
    const index = measuredEps.findIndex(
      (recordedEps) => Math.fround(recordedEps) === Math.fround(threshold),
    );
    if (eps !== undefined)
      expect(index >= 0, 'eps', `one of ${measuredEps.join(', ')}, at which it was recorded`, eps);
    return Math.max(index, 0);
  }

  /** Returns the size of a dimension, which may be a sum such as "L+1". */
  #sizeOf(expression: string) {
    const { model, prompts } = this.conditions;
    const sizes = { ...(model as object), T: prompts.T } as Record<string, number>;
    const termSize = (term: string) => (Object.hasOwn(sizes, term) ? sizes[term] : Number(term));
    if (expression === 'L+1') return model.blocks + 1; // every layer has a hidden state
    return expression.split('+').reduce((size, term) => size + termSize(term), 0);
  }

  async mean(name: string, args: { eps?: number } = {}) {
    return this.#readAggregate('mean', name, args);
  }

  async deviation(name: string, args: { eps?: number } = {}) {
    return this.#readAggregate('deviation', name, args);
  }

  async metric(name: string, args: RecordedArguments = {}) {
    check(args, 'object', 'args');
    const { prompt, ...others } = args;
    const [tensor] = await this.read([{ ...others, metric: name }], { prompt });
    return tensor;
  }

  async field(name: string, where: Where & { prompt?: number } = {}) {
    check(where, 'object', 'where');
    const { prompt, ...others } = where;
    const [tensor] = await this.read([{ ...others, field: name }], { prompt });
    return tensor;
  }

  async read(reads: readonly RunRead[], options: { prompt?: number } = {}): Promise<Tensor[]> {
    checkList(reads, 'object', 'reads');
    check(options, 'object', 'options');
    const { prompt = 0 } = options;
    const { kept } = this.conditions.prompts;
    if (kept === 0) throw missingError('prompt', 'a kept prompt');
    expectInteger(prompt, 0, kept - 1, 'prompt');
    if (reads.some((read) => 'base' in read && read.base !== undefined))
      throw new SinkscopeError('argument', 'base', 'expected none: a recording is not compared so');
    return this.#file.ask(async (backend, { recording }) => {
      const run = await this.#run(backend, recording, prompt);
      return backend.read(run, [...reads] as ReadMessage[]);
    });
  }

  async pooled(options: Where & { prompt?: number } = {}) {
    check(options, 'object', 'options');
    const { prompt = 0, ...where } = options;
    check(prompt, 'count', 'prompt');
    const name = `${prompt}.att_pooled`;
    if (!this.#tensors.has(name)) throw missingError('pooled', name);
    const [cells, scale] = [
      await this.tensor(name, where),
      await this.tensor(`${prompt}.att_scale`, where),
    ];
    const perScale = cells.data.length / scale.data.length;
    const data = Float32Array.from(
      cells.data,
      (cell, i) => (scale.data[Math.floor(i / perScale)] * cell) / 255,
    );
    return { shape: cells.shape, data };
  }

  async measure(options: Pick<MeasureOptions, 'eps' | 'metrics'> = {}) {
    checkOptions(options, { metrics: 'list' });
    const { describe } = this;
    const { count, kept, T } = this.conditions.prompts;
    const epsOption =
      options.eps ?? (this.conditions.eps.length ? this.conditions.eps : describe.defaults.eps);
    const thresholds = Array.isArray(epsOption) ? epsOption : [epsOption as number];
    checkList(thresholds, 'number', 'eps');
    const rows =
      options.metrics?.map((name) => rowNamed(describe.metrics, name, 'metric')) ??
      summaryMetrics(this, [this.conditions.edits]).filter((row) => !needsBase(row));
    const hasMeans = rows.some(({ name }) => this.#tensors.has(`mean.${name}`));
    // A file without means may have the fields of every prompt, which give the means.
    const readMetric = (name: string, eps: number) =>
      hasMeans || kept < count ? this.#readMeans(name, eps) : this.#meansOfPrompts(name, eps);
    const byEps = [];
    for (const eps of thresholds) {
      const metrics: Record<string, MetricMean> = {};
      for (const { name, arguments: args } of rows) {
        if (byEps.length > 0 && !args.includes('eps')) continue;
        const metricMean = await readMetric(name, eps).catch((error) => {
          if (options.metrics || error.code !== 'bad_request') throw error;
        });
        if (metricMean) metrics[name] = metricMean;
      }
      byEps.push({ eps, metrics });
    }
    const [{ eps, metrics }] = byEps;
    const thresholdRows = rows.filter(
      (row) => row.arguments.includes('eps') && row.name in metrics,
    );
    const thresholdMetrics = Object.fromEntries(
      thresholdRows.map(({ name }) => [name, metrics[name]]),
    );
    const measuredByEps = [{ eps, metrics: thresholdMetrics }, ...byEps.slice(1)];
    const isList = Array.isArray(epsOption) && thresholds.length > 1;
    return { eps, T, sequences: count, metrics, ...(isList && { byEps: measuredByEps }) };
  }

  async #readMeans(name: string, eps: number) {
    const row = rowNamed(this.describe.metrics, name, 'metric');
    const args = row.arguments.includes('eps') ? { eps } : {};
    const mean = await this.mean(name, args);
    const noDeviation = { shape: mean.shape, data: new Float32Array(mean.data.length).fill(NaN) };
    const deviation = this.#tensors.has(`deviation.${name}`)
      ? await this.deviation(name, args)
      : noDeviation;
    const toNumbers = ({ data }: Tensor) =>
      Array.from(data, (x) => (Number.isFinite(x) ? x : null));
    return { shape: mean.shape, mean: toNumbers(mean), deviation: toNumbers(deviation) };
  }

  async #meansOfPrompts(name: string, eps: number) {
    const { kept } = this.conditions.prompts;
    commonLength(this.conditions.tokens.map((strings) => ({ length: strings.length })));
    const sums: Sums = new Map();
    for (let prompt = 0; prompt < kept; prompt++)
      addUp(sums, name, await this.metric(name, { eps, prompt }));
    return meansOf(sums, kept)[name];
  }

  async close() {
    await this.#file.close((backend, { recording }) => backend.closeRecording(recording));
  }
}

const missingError = (where: string, name: string) =>
  new SinkscopeError('bad_request', where, `expected ${name} in the recording, found none`);
