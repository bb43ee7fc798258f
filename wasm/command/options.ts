/** Declares the commands and their options in one table, which the parser and the help read. */
import { parseArgs } from 'node:util';
import { SinkscopeError, expect } from '../abi/errors.ts';
import { LAB_MODEL } from '../lab/model.ts';
import type { Describe, EditKind, Setting } from '../abi/types.ts';

interface Option {
  meaning: string;
  /** Placeholder of the value in the help. An option without a placeholder is a flag. */
  value?: string;
  default?: string;
  repeats?: true;
  /** The words or the range of the value. */
  values?: Pick<Setting, 'words' | 'whole' | 'min' | 'max'>;
}
type Options = Readonly<Record<string, Option>>;
interface Command {
  names: readonly string[];
  /** The positional arguments, as error messages describe them; default: one model, or none. */
  expectedArguments?: string;
  usage: readonly string[];
  meaning: string;
  /** Paragraphs of help after `meaning`. */
  details?: string;
  options: (describe: Describe) => Options;
}

/** The values that were given, by option name; a list for options that may repeat. */
export type GivenOptions = Record<string, string | string[] | boolean | undefined>;

export const optionName = (name: string) => name.replaceAll('_', '-');

const ENGINE_OPTIONS: Options = {
  workers: {
    value: 'N',
    meaning: 'workers that share the sequences; default: the cores less one, or both of two',
  },
};

const JSON_OPTION: Options = { json: { meaning: 'prints everything measured, as JSON' } };

const CSV_OPTION: Options = {
  csv: {
    meaning:
      'prints CSV, one line for each number, with the columns of the page: subject, class, metric, mean, deviation, ' +
      'layer, head, key, prompts; then index (of a further dimension) and eps. Layers, heads and keys count ' +
      'from 0; hidden states begin at layer -1',
  },
};

const epsOptions = ({ defaults }: Describe): Options => ({
  eps: {
    value: 'E[,E...]',
    meaning: 'threshold of Sink_k, or several that one run serves',
    default: String(defaults.eps),
  },
});

const TEXT_OPTIONS: Options = {
  'text-file': { value: 'FILE', meaning: 'UTF-8 text, cut into consecutive sequences' },
  lines: {
    meaning:
      'takes each line, or in a .json file each text of its list, as a text of its own, and its first tokens as one sequence',
  },
  join: {
    value: 'N',
    meaning: 'with --lines: joins N consecutive texts into one, with a blank line between them',
    default: '1',
  },
  text: { value: 'TEXT', meaning: 'the text itself' },
  ids: {
    value: 'I,I,...',
    meaning:
      'token ids of a sequence, special ones included; several sequences of one length combine',
    repeats: true,
  },
  special: {
    value: 'S',
    meaning:
      'what a text starts with: auto (what the tokenizer adds, as in transformers), bos (its start token, even if it ' +
      'adds none), none, or a special token',
    default: 'auto',
  },
};

const cutOptions = ({ defaults }: Describe): Options => ({
  tokens: {
    value: 'T',
    meaning: 'tokens of a sequence, special tokens included',
    default: String(defaults.tokens),
  },
  sequences: { value: 'N', meaning: 'most sequences to take', default: '100' },
});

const withoutDefaults = (options: Options): Options =>
  Object.fromEntries(
    Object.entries(options).map(([name, { default: _, ...option }]) => [name, option]),
  );

function editUsage({ name, meaning, parameters }: EditKind) {
  const names = parameters.map((parameter) =>
    parameter.required ? parameter.name : `[${parameter.name}]`,
  );
  return `\n      ${name}: ${names.join(' ')}\n          ${meaning}`;
}

const modelOptions = ({ edits }: Describe): Options => ({
  edit: {
    value: '"NAME(value,key=value)"',
    meaning: `an edit of the run, or the name of an operation; several combine${edits.map(editUsage).join('')}`,
    repeats: true,
  },
  ...ENGINE_OPTIONS,
  endpoint: { value: 'URL', meaning: 'address of the hub' },
  cache: { meaning: 'keeps downloaded files' },
  'tokenizer-limit': {
    value: 'S',
    meaning:
      'seconds that a step of the tokenizer may take on an idle machine; a busy machine and large files grant more',
    default: '5',
  },
});

const sequenceOptions = (describe: Describe): Options => ({
  ...TEXT_OPTIONS,
  ...cutOptions(describe),
  ...modelOptions(describe),
  ...JSON_OPTION,
});

const WHOLE_TEXT_OPTIONS: Options = {
  text: TEXT_OPTIONS.text,
  'text-file': { value: 'FILE', meaning: 'a file that holds it, UTF-8' },
  special: TEXT_OPTIONS.special,
};

const headOptions = (note: string): Options => ({
  layer: { value: 'L', meaning: `layer of the head; ${note}` },
  head: { value: 'H', meaning: 'the head in this layer' },
});

const SAMPLING_OPTIONS: Options = {
  temperature: { value: 'X', meaning: '0 takes the likeliest token', default: '0' },
  'top-k': { value: 'K', meaning: 'draws among the K likeliest; 0: among all', default: '0' },
};

const SEED_OPTION: Options = {
  seed: { value: 'S', meaning: 'seed of the random choices', default: '0' },
};

const MODEL_HELP = `MODEL        a folder with config.json and weights, a .gguf file, owner/name[@revision] on the hub, or a name of the zoo;
             FOLDER@STEP is a checkpoint of its timeline`;
const ONE_TEXT_USAGE = '--text TEXT | --text-file FILE';
const SOURCE_USAGE = '--text-file FILE | --text TEXT | --ids 0,17,392';

export const COMMANDS: Readonly<Record<string, Command>> = {
  measure: {
    names: ['MODEL'],
    usage: [`MODEL ${SOURCE_USAGE}`, 'RECORDING'],
    meaning: 'measures the attention sinks of a model over a text (Gu et al., ICLR 2025)',
    details: `Layers, heads and positions count from 0; Sink_k and alpha_k keep the paper's k = position + 1.

${MODEL_HELP}
RECORDING    a file that record, or the Python package, has made: prints its means and runs no model; of a series of
             checkpoints FILE@STEP, by default the last; of the options below only --eps, --json, --csv and --workers go with it`,
    options: (describe) => ({
      ...TEXT_OPTIONS,
      ...cutOptions(describe),
      ...epsOptions(describe),
      ...modelOptions(describe),
      streaming: {
        meaning: 'holds only what an eviction keeps of a long text, and reports its loss alone',
      },
      'per-prompt': {
        meaning:
          'prints the values of each prompt; with --csv one line for each prompt and a column for each metric: alpha ' +
          'and what else has a value for each key at the first key, what has a value for each layer or head as the mean ' +
          'over them',
      },
      ...JSON_OPTION,
      ...CSV_OPTION,
    }),
  },
  map: {
    names: ['MODEL'],
    usage: [`MODEL ${ONE_TEXT_USAGE}`],
    meaning: 'the attention map of one head on one text',
    details: MODEL_HELP,
    options: (describe) => ({
      ...headOptions('default: the head that gives the first token most'),
      generate: {
        value: 'N',
        meaning: 'tokens that the model writes after the text; the map has their rows too',
        default: '0',
      },
      ...SAMPLING_OPTIONS,
      ...SEED_OPTION,
      ...WHOLE_TEXT_OPTIONS,
      ...modelOptions(describe),
      ...JSON_OPTION,
      csv: {
        meaning: 'prints CSV, one line for each cell: query, query_text, key, key_text, weight',
      },
    }),
  },
  ablate: {
    names: ['MODEL'],
    usage: [`MODEL ${ONE_TEXT_USAGE} --layer L [--head H]`],
    meaning: 'loss and sink of one text before and after a head or a layer is taken away',
    details: `${MODEL_HELP}
With --edit in place of --layer, or beside it, the edits are what is taken away.`,
    options: (describe) => ({
      ...headOptions('without --head all of its heads'),
      ...WHOLE_TEXT_OPTIONS,
      eps: { value: 'E', meaning: 'threshold of Sink_1', default: String(describe.defaults.eps) },
      ...modelOptions(describe),
      ...JSON_OPTION,
    }),
  },
  generate: {
    names: ['MODEL'],
    usage: [`MODEL ${ONE_TEXT_USAGE}`],
    meaning: 'what the model writes after a text',
    details: MODEL_HELP,
    options: (describe) => ({
      count: { value: 'N', meaning: 'tokens to write', default: '32' },
      ...SAMPLING_OPTIONS,
      ...SEED_OPTION,
      ...WHOLE_TEXT_OPTIONS,
      ...modelOptions(describe),
      ...JSON_OPTION,
    }),
  },
  record: {
    names: ['MODEL'],
    usage: [`MODEL ${SOURCE_USAGE} --out FILE.safetensors`],
    meaning: 'measures, and keeps the results and some maps in a recording',
    details: MODEL_HELP,
    options: (describe) => ({
      out: { value: 'FILE', meaning: 'the recording; only a regular file is replaced' },
      keep: { value: 'N', meaning: 'keeps maps of the first N sequences', default: '1' },
      fields: {
        value: 'F,F,...',
        meaning: 'fields to keep of these, beside norms, losses and exact alpha',
        default: 'att',
      },
      precision: {
        value: 'P',
        meaning: 'of these fields: half, or single for their own bits',
        default: 'half',
      },
      license: { value: 'TEXT', meaning: 'the license under which the recording may be passed on' },
      ...TEXT_OPTIONS,
      ...cutOptions(describe),
      ...epsOptions(describe),
      ...modelOptions(describe),
      ...JSON_OPTION,
      ...CSV_OPTION,
    }),
  },
  compare: {
    names: ['A', 'B'],
    expectedArguments: 'two recordings, or a recording and a model',
    usage: ['A B'],
    meaning: 'lists the differences of two recordings, or of a recording and a model',
    details: `A model is measured as the recording was: the same tokens, sequences, thresholds and edits, unless --edit names
others; it needs the text, in the options below. --tokens, --sequences and --eps may repeat what the recording has.
The exit status is 1 where anything differs.`,
    options: (describe) => ({
      tolerance: {
        value: 'X',
        meaning: 'numbers this close are equal; those above 1, this close relative to their size',
        default: '0.001',
      },
      ...TEXT_OPTIONS,
      ...withoutDefaults({ ...cutOptions(describe), ...epsOptions(describe) }),
      ...modelOptions(describe),
      ...JSON_OPTION,
    }),
  },
  suffix: {
    names: ['MODEL'],
    usage: [`MODEL ${SOURCE_USAGE}`],
    meaning: 'searches tokens that move the sink or raise the loss of what follows',
    details:
      'The search places them between the halves of the first sequence, and tries what it finds on the others.',
    options: (describe) => ({
      goal: {
        value: 'G',
        meaning:
          'loss: raise the loss; away: take weight from the first key; steal: give weight to the suffix',
        default: 'loss',
      },
      length: { value: 'N', meaning: 'tokens of the suffix', default: '5' },
      steps: {
        value: 'N',
        meaning: 'steps of the search; each keeps the best of --width changes of one token',
        default: '20',
      },
      width: { value: 'N', meaning: 'changes that a step tries', default: '64' },
      ...SEED_OPTION,
      prompt: { value: 'N', meaning: 'tokens before the suffix; default: half of --tokens' },
      ...sequenceOptions(describe),
    }),
  },
  tasks: {
    names: ['MODEL'],
    usage: [`MODEL ${SOURCE_USAGE}`],
    meaning: 'accuracy with every key, with the first key evicted, and with another key evicted',
    details: `The tasks: the next token in the second halves of the sequences, the second copy of random tokens, and a name
recalled over sentences.`,
    options: (describe) => ({
      copied: { value: 'N', meaning: 'random tokens that are copied', default: '25' },
      between: {
        value: 'N[,N...]',
        meaning: 'sentences between a name and the question for it',
        default: '1,4',
      },
      prompts: { value: 'N', meaning: 'prompts of the copies and of each recall', default: '24' },
      ...SEED_OPTION,
      ...sequenceOptions(describe),
    }),
  },
  unmask: {
    names: ['MODEL'],
    usage: [`MODEL ${SOURCE_USAGE}`],
    meaning: 'loss of a masked model at hidden places, with every key and without the strongest',
    details: `The places are uncovered step by step: with every key, without the strongest key of each step, and without a
random one.`,
    options: (describe) => ({
      masked: {
        value: 'SHARE',
        meaning: 'share of the tokens after the first that is hidden',
        default: '0.5',
      },
      causal: {
        value: 'MODEL',
        meaning: 'a causal model of the same vocabulary, for its losses at the same places',
      },
      steps: { value: 'N', meaning: 'steps of the unmasking', default: '20' },
      ...SEED_OPTION,
      ...sequenceOptions(describe),
    }),
  },
  train: {
    names: [],
    usage: ['[OPTIONS]'],
    meaning: 'trains a small model, and reports what its attention does',
    details: 'It begins with random weights, or with those of a trained model.',
    options: ({ training }) => ({
      ...Object.fromEntries(
        (training?.settings ?? []).map(({ name, meaning, default: defaultValue, ...values }) => [
          optionName(name),
          {
            value: values.words ? 'WORD' : 'X',
            ...{ meaning, values, default: String(defaultValue) },
          },
        ]),
      ),
      ...Object.fromEntries(
        Object.entries(LAB_MODEL).map(([name, defaultValue]) => [
          optionName(name),
          {
            value: typeof defaultValue === 'number' ? 'N' : 'WORD',
            meaning: 'of the model',
            values: training?.model?.find((row) => row.name === name),
            default: String(defaultValue),
          },
        ]),
      ),
      config: { value: 'FILE', meaning: 'a config.json instead of these choices of the model' },
      begin: { value: 'FILE', meaning: 'weights to begin with, safetensors' },
      'text-file': {
        value: 'FILE',
        meaning:
          'UTF-8 text for the task text, or a JSON list of texts; several are concatenated; needs --tokenizer',
        repeats: true,
      },
      tokenizer: { value: 'FILE', meaning: 'the tokenizer.json of the text' },
      from: {
        value: 'FOLDER[@STEP]',
        meaning:
          'fine-tunes this model, or a checkpoint of its timeline, with its tokenizer, on the text; gentle defaults and ' +
          '100 steps; --operation, --bias-key and --gate make it another variant',
      },
      'held-file': {
        value: 'FILE',
        meaning:
          'UTF-8 text that is not trained on, or a JSON list of texts: every line has the loss of up to --held sequences ' +
          'of it (of a list, the beginning of each text); with --from, its rise is forgetting',
      },
      held: { value: 'N', meaning: 'most sequences of --held-file', default: '16' },
      recipe: {
        value: 'FOLDER',
        meaning:
          'repeats the training that wrote this folder, to the same digits; --from and --text-file name its model and ' +
          'text where these have moved',
      },
      every: { value: 'N', meaning: 'steps from one line to the next', default: '10' },
      json: { meaning: 'prints everything measured in each line, as JSON' },
      out: {
        value: 'FOLDER',
        meaning:
          'writes a model that opens anywhere, with its tokenizer, and recipe.json; Ctrl-C keeps what is trained so far',
      },
      resume: {
        value: 'FOLDER',
        meaning:
          'continues the training of this folder that ended early, from its last checkpoint to the same digits',
      },
      checkpoint: {
        value: 'SECONDS',
        meaning: 'time from one checkpoint of --out to the next',
        default: '60',
      },
      workers: {
        value: 'N',
        meaning: 'workers that share each batch; the digits do not depend on it',
        default: '1',
      },
    }),
  },
  describe: {
    names: [],
    usage: ['[--json]'],
    meaning: 'lists every metric, field, edit and attention operation',
    options: () => ({ json: { meaning: 'prints the tables as JSON' } }),
  },
};

const WIDTH = 108;
const INDENT = 28;

/** Wraps a text's first paragraph to WIDTH, after `leftColumn`; the others stay as they are. */
function wrapText(leftColumn: string, text: string) {
  const [first, ...rest] = text.split('\n');
  const lines = [leftColumn.padEnd(INDENT)];
  if (!lines[0].endsWith(' ')) lines.push(' '.repeat(INDENT));
  for (const word of first.split(' ')) {
    const last = lines[lines.length - 1];
    if (last.length + word.length <= WIDTH) lines[lines.length - 1] = `${last}${word} `;
    else lines.push(`${' '.repeat(INDENT)}${word} `);
  }
  return [...lines.map((line) => line.trimEnd()), ...rest].join('\n');
}

function optionUsage([name, { value, meaning, values, default: standard }]: [string, Option]) {
  const [first, ...rest] = meaning.split('\n');
  const words = values?.words ? `: ${values.words.join(', ')}` : '';
  const text = [`${first}${words}${standard === undefined ? '' : ` (${standard})`}`, ...rest].join(
    '\n',
  );
  return wrapText(`  --${name}${value ? ` ${value}` : ''}`, text);
}

export function usage(describe: Describe, name?: string) {
  const usageLines = (command: string) =>
    COMMANDS[command].usage.map((form) => `sinkscope ${command} ${form}`);
  if (name) {
    const { meaning, details, options } = COMMANDS[name];
    const about = `${meaning[0].toUpperCase()}${meaning.slice(1)}.${details ? `\n${details}` : ''}`;
    const optionRows = Object.entries(options(describe)).map(optionUsage);
    return `${usageLines(name).join('\n')}\n\n${about}\n\n${optionRows.join('\n')}\n`;
  }
  const rows = Object.entries(COMMANDS).map(([one, { meaning }]) => wrapText(`  ${one}`, meaning));
  return `${Object.keys(COMMANDS).flatMap(usageLines).join('\n')}

${rows.join('\n')}

sinkscope help COMMAND      the options of a command, as COMMAND --help
sinkscope --version         the version of the package
The environment variable HF_TOKEN holds an access token for the hub.
`;
}

export function readArguments(args: readonly string[], describe: Describe) {
  const [command = '', ...rest] = args;
  const commands = Object.keys(COMMANDS);
  expect(commands.includes(command), 'command', `one of ${commands.join(', ')}`, command);
  const options = COMMANDS[command].options(describe);
  const acceptedOptions: Options = { ...options, help: { meaning: '' } };
  const config = Object.fromEntries(
    Object.entries(acceptedOptions).map(([name, { value }]) => [
      name,
      { type: value ? ('string' as const) : ('boolean' as const) },
    ]),
  );
  const { tokens } = parseArgs({
    ...{ args: rest, options: config, strict: false, allowPositionals: true, tokens: true },
  });
  const values: GivenOptions = {};
  const names: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') names.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    if (!Object.hasOwn(config, name) || !rawName.startsWith('--'))
      throw unknownOptionError(rawName, command, describe);
    if (config[name].type === 'boolean') {
      expect(value === undefined, rawName, 'no value', value);
      values[name] = true;
      continue;
    }
    const expected = `a value, ${options[name].value}`;
    if (value === undefined) throw missingError(rawName, expected);
    // A value that looks like an option usually means that the value is missing.
    const isValue = inlineValue || !String(value).startsWith('--');
    expect(isValue, rawName, `${expected}, after "=" if it begins with "--"`, value);
    checkValue(String(value), rawName, options[name]);
    const previousValue = values[name];
    // The last value of a repeated option wins, so that a script can append options.
    values[name] = options[name].repeats
      ? [...(Array.isArray(previousValue) ? previousValue : []), String(value)]
      : value;
  }
  if (!values.help) {
    const {
      names: positionals,
      expectedArguments = positionals.length ? 'one model' : 'options only',
    } = COMMANDS[command];
    const place = positionals.join(' ') || command;
    if (names.length === 0 && positionals.length > 0) throw missingError(place, expectedArguments);
    expect(names.length === positionals.length, place, expectedArguments, names.length);
  }
  return { command, givenOptions: values, names };
}

export const missingError = (where: string, expected: string) =>
  new SinkscopeError('argument', where, `expected ${expected}, found none`);

function checkValue(text: string, where: string, { values }: Option) {
  if (!values) return;
  const { words, whole, min = -Infinity, max = Infinity } = values;
  if (words) return expect(words.includes(text), where, `one of ${words.join(', ')}`, text);
  const number = text.trim() === '' ? NaN : Number(text);
  const fits = number >= min && number <= max && (!whole || Number.isInteger(number));
  expect(fits, where, `a${whole ? ' whole' : ''} number from ${min} to ${max}`, text);
}

function unknownOptionError(rawName: string, command: string, describe: Describe) {
  const name = rawName.replace(/^--?/, '');
  const commandsWithOption = Object.entries(COMMANDS)
    .filter(([, { options }]) => Object.hasOwn(options(describe), name))
    .map(([other]) => other);
  const text = commandsWithOption.length
    ? `${command} has no such option; ${commandsWithOption.join(', ')} ${commandsWithOption.length > 1 ? 'have' : 'has'} it`
    : `${command} has no such option; "sinkscope ${command} --help" lists those it has`;
  return new SinkscopeError('argument', rawName, text);
}

export function withDefaults(command: string, options: GivenOptions, describe: Describe) {
  const defaults = Object.entries(COMMANDS[command].options(describe)).flatMap(
    ([name, { default: defaultValue }]) =>
      defaultValue === undefined ? [] : [[name, defaultValue]],
  );
  return { ...Object.fromEntries(defaults), ...options };
}

export function refuse(options: GivenOptions, names: readonly string[], reason: string) {
  const name = names.find((option) => options[option] !== undefined);
  if (name) throw new SinkscopeError('argument', `--${name}`, reason);
}
