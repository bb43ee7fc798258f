/**
 * Measures what the room “Why it matters” measures, for several models in one table: the cost in nats of
 * streaming, of dropping keys, of rounding and of perturbing one channel or weight, and what Explore shows of
 * heads and of one changed token. Prompts are the held-out passages, with BOS first where the model has one.
 *
 *     node tests/bench/benches.mjs [--tokens 120] [--sequences 40] [--skip effects] MODEL...
 *
 * MODEL is a name of the zoo, a folder or a .gguf file. Costs come with their deviation over the prompts.
 * Seconds are wall time, so other programs on the machine lengthen them.
 */
import { openAsBlob } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  createEngine,
  cutText,
  headEffects,
  labelHead,
  measure,
  modelFiles,
  planFiles,
  planTokenizer,
  sweep,
} from '../../wasm/index.ts';

const { values, positionals } = parseArgs({
  options: {
    tokens: { type: 'string', default: '120' },
    sequences: { type: 'string', default: '40' },
    skip: { type: 'string', multiple: true, default: [] },
  },
  allowPositionals: true,
});
const zoo = fileURLToPath(new URL('../../models/zoo/', import.meta.url));
const passages = JSON.parse(await readFile(join(zoo, 'heldout-long.json'), 'utf8'));
const engine = await createEngine();
const EPS = engine.describe.defaults.eps;

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const deviation = (values) =>
  Math.sqrt(
    mean(values.map((x) => (x - mean(values)) ** 2 * (values.length / (values.length - 1)))),
  );
const signed = (x) => `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(3)}`;
const percent = (x) => (Number.isFinite(x) ? `${(100 * x).toFixed(1)} %` : '–');
const finite = (values) => values.filter((x) => x !== null && Number.isFinite(x));

async function openModel(name) {
  const path = (await stat(name).catch(() => undefined)) ? name : join(zoo, name);
  const isFolder = (await stat(path)).isDirectory();
  const names = isFolder
    ? (await readdir(path, { withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name)
    : [''];
  const files = names.map(async (fileName) => ({
    path: fileName || basename(path),
    file: await openAsBlob(join(path, fileName)),
  }));
  const [plan] = await planFiles(await Promise.all(files));
  const model = await engine.open(modelFiles(plan, {}));
  const tokenizer = await planTokenizer(plan, model, {});
  const first = tokenizer.specials.find(({ id }) => id === tokenizer.bos);
  const sequences = await cutText(tokenizer, passages, {
    tokens: Number(values.tokens),
    sequences: Number(values.sequences),
    special: first ? [first.text] : 'none',
  });
  const word = tokenizer.encode
    ? (await tokenizer.encode(' water', { special: 'none' }))[0].id
    : 300;
  return { model, sequences, first: first && sequences[0][0], word };
}

const evict = (policy, otherParameters = {}) => [
  { kind: 'evict', policy, budget: 24, ...otherParameters },
];
const round = (label, bits, changes, first = 0) => [
  { kind: 'quantize', what: label, bits, by: changes, ...(first ? { first } : {}) },
];

const SETTINGS = [
  ['last 24 keys', evict('window')],
  ['first + last 23', evict('first', { first: 1 })],
  ...['h2o', 'tova', 'vatp', 'key_norm'].map((policy) => [`${policy}, 24 keys`, evict(policy)]),
  ['hidden, 6 bits, one scale', round('hidden', 6, 'tensor')],
  ['the same, token 1 exact', round('hidden', 6, 'tensor', 1)],
  ['hidden, 4 bits by token', round('hidden', 4, 'token')],
  ['keys, 4 bits, one scale', round('keys', 4, 'tensor')],
  ['weights, 4 bits, one scale', round('weights', 4, 'tensor')],
  ['weights, 4 bits by channel', round('weights', 4, 'channel')],
];

/**
 * Measures the effect of perturbing the largest number of the stream, and the weight that writes it. Five other numbers
 * and weights are the control.
 */
async function measurePerturbations({ model, sequences }) {
  const { D, F } = model.architecture;
  const run = await model.run(sequences[0], { fields: ['hidden', 'spikes'] });
  const hidden = await run.field('hidden');
  const [sizes, places, spikes] = (
    await run.read(['massive', 'massive_at', 'super_weight'].map((metric) => ({ metric })))
  ).map(({ data }) => data);
  await run.close();
  const rows = Array.from({ length: sizes.length / 4 }, (_, l) => sizes[4 * l] / sizes[4 * l + 3]);
  const strongestLayer = rows.indexOf(Math.max(...rows));
  const [channel, token] = places.slice(6 * strongestLayer);
  const value = hidden.data[(strongestLayer * sequences[0].length + token) * D + channel];
  const outputs = Array.from({ length: spikes.length / 6 }, (_, l) => Math.abs(spikes[6 * l + 5]));
  const layer = outputs.indexOf(Math.max(...outputs));
  const [row, column] = spikes.slice(6 * layer);
  const otherIndex = (index, n, i) => (index + Math.round((i * n) / 6)) % n;
  const clamp = (channel, otherParameters = {}) => [
    { kind: 'clamp_channel', channel, ...otherParameters },
  ];
  const scale = (r, c) => [
    { kind: 'scale_weight', matrix: 'down', layer, row: r, column: c, factor: 0 },
  ];
  const five = [1, 2, 3, 4, 5];
  return [
    [`channel of the largest at 0`, clamp(channel)],
    [`the same at its mean`, clamp(channel, { to: 'mean' })],
    ['that number alone at 0', clamp(channel, { layer: strongestLayer, token })],
    ['the same at its value', clamp(channel, { layer: strongestLayer, token, to: 'value', value })],
    ...five.map((i) => [`other channel ${i}`, clamp(otherIndex(channel, D, i))]),
    ...(layer < 0
      ? []
      : [
          [`weight that writes the largest at 0`, scale(row, column)],
          ...five.map((i) => [
            `other weight ${i}`,
            scale(otherIndex(row, D, i), otherIndex(column, F, i)),
          ]),
        ]),
  ];
}

/** Counts the repeated tokens whose hidden norm is at least half that of token 1 in ordinary text. */
async function countCopies({ model, sequences, first, word }) {
  const normsOf = async (ids) => {
    const result = await measure(model, [ids], {
      metrics: ['hidden_norm', 'hidden_ratio', 'sink_ratio'],
      eps: EPS,
    });
    return result.metrics;
  };
  const textNorms = await normsOf(sequences[0]);
  const ratios = textNorms.hidden_ratio.mean;
  const layer = ratios.indexOf(Math.max(...ratios));
  const parts = [`token 1 ${ratios[layer].toFixed(1)} × the others`];
  const begin = first === undefined ? [] : [first];
  for (const [name, id] of [
    ['a word', word],
    ['the first', first],
  ]) {
    if (id === undefined) continue;
    const { hidden_norm, sink_ratio } = await normsOf([...begin, ...Array(100).fill(id)]);
    const [, T] = hidden_norm.shape;
    const norms = hidden_norm.mean.slice(layer * T, (layer + 1) * T);
    const count = norms.slice(1).filter((x) => x >= norms[0] / 2).length;
    parts.push(`${name}: ${count} of ${T - 1}, Sink₁ ${percent(sink_ratio.mean[0])}`);
  }
  return parts.join('; ');
}

async function heads({ model, sequences }) {
  const ids = sequences.slice(0, 8);
  const { H } = model.architecture;
  const { mean: effect } = await headEffects(model, ids);
  const { metrics } = await measure(model, ids, {
    metrics: ['first_share', 'contribution'],
    eps: EPS,
  });
  const [share, contribution] = [metrics.first_share.mean, metrics.contribution.mean];
  const headLabels = effect.map((x, i) =>
    labelHead({ eps: EPS, share: share[i], contribution: contribution[i] ?? NaN, effect: x }),
  );
  const count = (label) => headLabels.filter((headLabel) => headLabel.label === label).length;
  const largestHead = effect.indexOf(Math.max(...effect));
  return (
    `${count('active')} active, ${count('no-op')} no-op, ${count('broadcast')} broadcast, ` +
    `${headLabels.filter(({ dormant }) => dormant).length} dormant; most ${signed(effect[largestHead])} ` +
    `(layer ${Math.floor(largestHead / H) + 1}, head ${(largestHead % H) + 1})`
  );
}

/** Measures how far the hidden states of later tokens move, after the last layer, if an early token is replaced. */
async function measureInfluence({ model, sequences, first }) {
  const { L } = model.architecture;
  const measureMoves = async (start) => {
    const moves = [];
    for (const ids of sequences.slice(0, 8)) {
      const text = ids.slice(start);
      const place = (first === undefined ? 0 : 1) + 4 - start;
      const otherId = [...text].reverse().find((id) => id !== text[place]);
      const options = { fields: ['hidden'], capacity: text.length };
      const base = await model.run(text, options);
      const run = await model.run(
        text.map((id, t) => (t === place ? otherId : id)),
        options,
      );
      const { data } = await run.metric('hidden_change', { base });
      await Promise.all([run.close(), base.close()]);
      moves.push(mean([...data.slice(L * text.length + place + 1)]));
    }
    return percent(mean(moves));
  };
  return first === undefined
    ? measureMoves(0)
    : `${await measureMoves(0)}, without the first token ${await measureMoves(1)}`;
}

const columns = [];
for (const name of positionals) {
  const startTime = performance.now();
  const reportRows = new Map();
  /** Prints each row at once, because a large model takes minutes. */
  const report = (row, value) => {
    reportRows.set(row, value);
    console.error(`${basename(name)}: ${row}: ${value}`);
  };
  const runTimed = async (rowName, work) => {
    if (values.skip.includes(rowName)) return;
    const startTime = performance.now();
    await work();
    report(`seconds: ${rowName}`, ((performance.now() - startTime) / 1000).toFixed(1));
  };
  const openedModel = await openModel(name);
  const { model, sequences } = openedModel;
  const costs = (rowName, settings) =>
    runTimed(rowName, async () => {
      const cases = [[], ...settings.map(([, edits]) => edits)];
      const lossesByCase = cases.map(() => []);
      const results = await sweep(model, sequences, cases, {
        eps: EPS,
        metrics: [
          'loss_mean',
          'kl_mean',
          'sink_ratio',
          'keeps_first',
          'quantize_error',
          'weight_error',
        ],
        onSequence: ({ loss_mean }, _, caseIndex) =>
          lossesByCase[caseIndex].push(loss_mean.data[0]),
      });
      const [baseline] = results;
      report('loss of the baseline', baseline.metrics.loss_mean.mean[0].toFixed(3));
      report('Sink₁ of it', percent(baseline.metrics.sink_ratio.mean[0]));
      const groups = new Map();
      settings.forEach(([label, edits], i) => {
        const { metrics } = results[i + 1];
        const differences = lossesByCase[i + 1].map((loss, n) => loss - lossesByCase[0][n]);
        const spread = differences.length > 1 ? ` ± ${deviation(differences).toFixed(3)}` : '';
        const errors = finite([...metrics.quantize_error.mean, ...metrics.weight_error.mean]);
        const kind = edits[0].kind;
        const parts = [
          kind === 'evict' &&
            `KL ${metrics.kl_mean.mean[0].toFixed(3)}, kept ${percent(mean(metrics.keeps_first.mean))}`,
          kind === 'quantize' &&
            `${percent(mean(errors))} off, Sink₁ ${percent(metrics.sink_ratio.mean[0])}`,
        ].filter(Boolean);
        const [, others] = /^(other \w+)/.exec(label) ?? [];
        if (others)
          groups.set(others, Math.max(groups.get(others) ?? -Infinity, mean(differences)));
        else
          report(
            label,
            `${signed(mean(differences))}${spread}${parts.length ? ` (${parts})` : ''}`,
          );
      });
      for (const [label, largest] of groups) report(`five ${label}s, at most`, signed(largest));
    });
  await costs('keys and bits', SETTINGS);
  await costs(
    'strikes',
    values.skip.includes('strikes') ? [] : await measurePerturbations(openedModel),
  );
  await runTimed('copies', async () => report('100 copies', await countCopies(openedModel)));
  await runTimed('effects', async () => report('heads', await heads(openedModel)));
  await runTimed('reach', async () =>
    report('influence of one token', await measureInfluence(openedModel)),
  );
  report('seconds: all', ((performance.now() - startTime) / 1000).toFixed(1));
  columns.push({ name: basename(name), reported: reportRows });
  await model.close();
}
await engine.close();

const rows = [...new Set(columns.flatMap(({ reported }) => [...reported.keys()]))];
console.log(
  `| T = ${values.tokens}, at most ${values.sequences} prompts | ${columns.map(({ name }) => name).join(' | ')} |`,
);
console.log(`|---|${columns.map(() => '---').join('|')}|`);
for (const row of rows)
  console.log(
    `| ${row} | ${columns.map(({ reported }) => reported.get(row) ?? '–').join(' | ')} |`,
  );
