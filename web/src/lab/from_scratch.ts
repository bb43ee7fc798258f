/** Sets up a model with random initial weights: its shape, its task, and characters for its tokens. */
import { labConfig, labTokenizer } from 'sinkscope';
import { LAB_MODEL } from 'sinkscope/internal';
import { pickSettings, type Settings } from './settings';
import type { Setup } from './setup';

const { vocabulary: VOCABULARY } = LAB_MODEL;

function tokenizerOf({ triggers, first }: Settings) {
  const shape = { vocabulary: VOCABULARY, triggers: Number(triggers) };
  return labTokenizer({ ...shape, first: first === 'fixed' ? 0 : -1 });
}

/** Returns the text of each token: a circled digit for a trigger, a letter or digit for any other token. */
export const tokenTexts = (settings: Settings): readonly string[] => tokenizerOf(settings).words;

export function setUp(settings: Settings): Setup {
  const { width, length } = settings;
  const sizes = { inner: 4 * Number(width), context: Number(length), vocabulary: VOCABULARY };
  const isFixed = settings.first === 'fixed';
  const { words, tokenizer, tokenizerConfig } = tokenizerOf(settings);
  return {
    options: {
      config: labConfig({ ...pickSettings(settings, true), ...sizes }),
      recipe: { ...pickSettings(settings, false), first: isFixed ? 0 : -1 },
    },
    piece: (id) => words[id] ?? '',
    tokenizer,
    tokenizerConfig,
    ...(isFixed ? { firstText: words[0]! } : {}),
  };
}
