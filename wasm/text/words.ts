/**
 * Converts the vocab.txt of the first BERT models, a token per line, to tokenizer.json; settings
 * that tokenizer_config.json lacks are those of transformers' BertTokenizer.
 */
import {
  checkVocab,
  indexLines,
  tokenNameOf,
  parseObject,
  refuse,
  makeTemplate,
} from './vocabulary.ts';
import type { TokenizerFiles } from './types.ts';

const DEFAULT_NAMES: readonly (readonly [string, string])[] = [
  ['unk_token', '[UNK]'],
  ['sep_token', '[SEP]'],
  ['pad_token', '[PAD]'],
  ['cls_token', '[CLS]'],
  ['mask_token', '[MASK]'],
];

export function tokenizerOfWords(text: string, config: string | object = {}): TokenizerFiles {
  const settings = parseObject(config, 'tokenizer_config.json');
  const vocab = readVocab(text);
  const roles = DEFAULT_NAMES.map(([key, defaultName]) => [
    key,
    tokenNameOf(settings, key) ?? defaultName,
  ]);
  const { unk_token, sep_token, cls_token } = Object.fromEntries(roles);
  for (const name of [unk_token, sep_token, cls_token])
    if (!Object.hasOwn(vocab, name)) refuse('vocab.txt', `expected a line "${name}", got none`);
  const specialTokens = roles.filter(([, name]) => Object.hasOwn(vocab, name));
  const json = {
    version: '1.0',
    added_tokens: specialTokens.map(([, content]) => ({
      id: vocab[content],
      content,
      special: true,
    })),
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: settings.tokenize_chinese_chars !== false,
      strip_accents: settings.strip_accents ?? null,
      lowercase: settings.do_lower_case !== false,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: makeTemplate(cls_token, sep_token),
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: { type: 'WordPiece', vocab, unk_token, continuing_subword_prefix: '##' },
  };
  return { json, config: { ...settings, ...Object.fromEntries(specialTokens) } };
}

function readVocab(text: string) {
  const vocab = Object.fromEntries(indexLines(text, 'vocab.txt'));
  checkVocab(vocab, 'vocab.txt');
  return vocab;
}
