/** Sets up fine-tuning: a model of the zoo continues from a checkpoint, on the page's passages or the reader's text. */
import { signal } from '@preact/signals-core';
import { labOnward, openTokenizer, type Tokenizer } from 'sinkscope';
import { cutText } from 'sinkscope/internal';
import { base } from '../base';
import { type Models } from '../run/models';
import { fetchNamed, InputError } from '../ask/errors';
import { PASSAGE_FILES, fetchText, type Card } from '../ask/zoo';
import type { Settings } from './settings';
import type { Setup } from './setup';
import { readText, type OwnText } from './store';
import { HELD_SEQUENCES, HELD_TOKENS, TRAINED_STEPS } from './table';

/** The reader's text, which the browser stores. */
export const ownText = signal<OwnText | undefined>(undefined);

/** The id of the token before every sequence, -1 for none; <s> is token 0 of every model of the zoo. */
const FIRST_IDS: Readonly<Record<string, number>> = { fixed: 0, any: -1 };

async function readPassages(): Promise<string> {
  const files = await Promise.all(PASSAGE_FILES.map(fetchText));
  return files.flatMap((file) => JSON.parse(file) as string[]).join('\n');
}

async function readLicense() {
  const response = await fetchNamed(new URL('LICENSE', base), 'LICENSE');
  return { name: 'the Apache license', text: await response.text() };
}

async function textFor(settings: Settings) {
  if (settings.text === 'license') return readLicense();
  if (settings.text !== 'own') return { name: 'the passages', text: await readPassages() };
  ownText.value ??= await readText();
  if (ownText.value) return ownText.value;
  throw new InputError(
    'Links do not contain your text: choose its file again, or use the passages of this page.',
  );
}

async function checkpointFor(card: Card, step: number, models: Models) {
  if (step >= TRAINED_STEPS) {
    const { config, weights: begin } = await models.zoo.files(card.id);
    return { config, begin, step: TRAINED_STEPS };
  }
  if (!card.timeline) throw new InputError(`“${card.id}” has no stored checkpoints.`);
  const { files, facts } = await (await models.timelines()).open(card.id, step, {});
  const [config, weights] = await Promise.all(
    [files.config, files.weights].map((part) => new Response(part as BodyInit).arrayBuffer()),
  );
  return {
    config: new TextDecoder().decode(config),
    begin: new Uint8Array(weights!),
    step: facts.step,
  };
}

/**
 * Returns held-out sequences: beginnings of passages like those that the zoo was trained on. They are as long as the
 * sequences of the training, but at most HELD_TOKENS tokens.
 */
async function heldOutSequences(tokenizer: Tokenizer, length: number, firstId: number) {
  const prefix = firstId >= 0 ? [firstId] : [];
  const [file] = PASSAGE_FILES;
  const passages = JSON.parse(await fetchText(file)) as string[];
  const sequences = await cutText(tokenizer, passages, {
    tokens: Math.min(length, HELD_TOKENS) - prefix.length,
    sequences: HELD_SEQUENCES,
    special: 'none',
  });
  return sequences.map((ids) => [...prefix, ...ids]);
}

function architectureChanges(settings: Settings): Record<string, string> {
  const names = ['operation', 'bias_key', 'gate'].filter((name) => settings[name] !== 'own');
  return Object.fromEntries(names.map((name) => [name, String(settings[name])]));
}

export async function setUp(settings: Settings, models: Models): Promise<Setup> {
  const card = models.zoo.cards.find(({ id }) => id === settings.from)!;
  const [checkpoint, chosenText, tokenizerFile] = await Promise.all([
    checkpointFor(card, Number(settings.at), models),
    textFor(settings),
    fetchText(`${card.tokenizer}/tokenizer.json`),
  ]);
  const tokenizerConfig = `${JSON.stringify(card.tokenizer_config, null, 2)}\n`;
  const tokenizer = openTokenizer(tokenizerFile, tokenizerConfig);
  const text = Int32Array.from(
    tokenizer.encode(chosenText.text, { special: 'none' }),
    ({ id }) => id,
  );
  const { optimizer, learning_rate, weight_decay, length, batch, planted, seed, steps } = settings;
  const recipe = { optimizer, learning_rate, weight_decay, length, batch, planted, seed, steps };
  const firstTokenId = FIRST_IDS[String(settings.first)];
  const labOptions = labOnward(
    JSON.parse(checkpoint.config) as object,
    architectureChanges(settings),
    {
      ...(recipe as Record<string, number | string>),
      ...(firstTokenId === undefined ? {} : { first: firstTokenId }),
    },
  );
  const trainedFirstId = Number(labOptions.recipe.first);
  return {
    // Measures forgetting only if the model is not trained on the same passages.
    heldOut:
      settings.text === 'passages'
        ? undefined
        : await heldOutSequences(tokenizer, Number(length), trainedFirstId),
    options: { ...labOptions, begin: checkpoint.begin, text },
    piece: (id) => pieceOf(tokenizer, id),
    tokenizer: tokenizerFile,
    tokenizerConfig,
    text: { tokens: text.length, name: chosenText.name, content: chosenText.text },
    source: {
      model: `models/zoo/${card.id}`,
      // The command line begins with model.safetensors, whose numbers the page may have from a smaller file.
      ...(Number(settings.at) >= TRAINED_STEPS
        ? { step: null, sha256: card.sha256 }
        : { step: checkpoint.step }),
    },
    ...(trainedFirstId >= 0 ? { firstText: pieceOf(tokenizer, trainedFirstId) } : {}),
  };
}

function pieceOf(tokenizer: Tokenizer, id: number): string {
  return tokenizer.specials.find((special) => special.id === id)?.text ?? tokenizer.piece(id);
}
