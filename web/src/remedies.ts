/**
 * Remedies of production models for their sinks, with the families that use each; lesson 5 and Compare draw the same
 * table. Every family has a source. This page measured none of these models, only small twins of them.
 */

import type { Difference } from './ask/zoo';

type Source = { readonly title: string; readonly url: string };

interface Family {
  readonly name: string;
  /** The `model_type` in the config.json of its published models. */
  readonly family?: string;
  /** Where in the model the remedy is, or a remark about its source. */
  readonly where: string;
  /** A checkpoint that the Python recorder opens, or why there is none. */
  readonly checkpoint: string | { readonly none: string };
  /** Whether the checkpoint also opens in this page. */
  readonly opens?: boolean;
  readonly source: Source;
}

export interface Remedy {
  readonly title: string;
  readonly formula: string;
  /** The zoo's model with the same operation. */
  readonly twin: string;
  /** A remark for a twin whose numbers mean something else than those of other remedies. */
  readonly note?: string;
  readonly families: readonly Family[];
}

/** Returns a reference to code, in the version of transformers that the recorder is tested with. */
const codeSource = (family: string, name: string): Source => ({
  title: `code of transformers 5.24.0: ${name}`,
  url: `https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/${family}/modeling_${family}.py`,
});

const documentationSource = (title: string, page: string): Source => ({
  title: `docs of transformers: ${title}`,
  url: `https://huggingface.co/docs/transformers/main/model_doc/${page}`,
});

export const REMEDIES: readonly Remedy[] = [
  {
    title: 'A learned sink logit s for each head',
    formula: 'exp(xⱼ) / (exp(s) + Σᵢ exp(xᵢ))',
    twin: 'sink-logit',
    families: [
      {
        name: 'gpt-oss',
        family: 'gpt_oss',
        where: 'in every layer',
        checkpoint: 'openai/gpt-oss-20b',
        source: codeSource('gpt_oss', 'GptOssAttention'),
      },
      {
        name: 'Granite SWA',
        family: 'granite_swa',
        where: 'in every layer, as a factor on the output that equals it',
        checkpoint: 'ibm-granite/granite-swash-2b',
        source: documentationSource('GraniteSWA', 'granite_swa'),
      },
      {
        name: 'MiMo-V2-Flash',
        family: 'mimo_v2_flash',
        where: 'in layers with a sliding window only',
        checkpoint: 'XiaomiMiMo/MiMo-V2-Flash',
        source: documentationSource('MiMo-V2-Flash, key features', 'mimo_v2_flash'),
      },
      {
        name: 'DeepSeek-V4',
        family: 'deepseek_v4',
        where: 'in every layer, also over compressed keys',
        checkpoint: { none: 'the recorder refuses its compressed keys' },
        source: codeSource('deepseek_v4', 'DeepseekV4Attention'),
      },
    ],
  },
  {
    title: 'A gate on every element of a head’s output',
    formula: 'σ(W h) ⊙ Σⱼ αⱼ vⱼ',
    twin: 'gated',
    families: [
      {
        name: 'Qwen3-Next',
        family: 'qwen3_next',
        where: 'in its softmax layers, one of four',
        checkpoint: 'Qwen/Qwen3-Next-80B-A3B-Instruct',
        source: {
          title: 'Qiu et al. 2025, code repository, updates',
          url: 'https://github.com/qiuzh20/gated_attention',
        },
      },
      {
        name: 'Qwen3.5',
        family: 'qwen3_5_text',
        where: 'the same gate; its code does not say why',
        checkpoint: 'Qwen/Qwen3.5-0.8B',
        opens: true,
        source: codeSource('qwen3_5', 'Qwen3_5Attention'),
      },
    ],
  },
  {
    title: 'Proposed: softmax₁, a sink logit fixed at 0',
    formula: 'exp(xⱼ) / (1 + Σᵢ exp(xᵢ))',
    twin: 'softmax1',
    families: [
      {
        name: 'Miller 2023',
        where: 'in every head',
        checkpoint: { none: 'no model' },
        source: {
          title: 'Miller 2023, Attention Is Off By One',
          url: 'https://www.evanmiller.org/attention-is-off-by-one.html',
        },
      },
    ],
  },
  {
    title: 'Proposed: a learned sink token before every text',
    formula: 'exp(xⱼ) / (exp(xₛ) + Σᵢ exp(xᵢ)), where s is the token',
    note: 'This is the share at the sink token itself, which is meant to be the sink.',
    twin: 'sink-token',
    families: [
      {
        name: 'StreamingLLM',
        where: 'the token stays in the cache',
        checkpoint: { none: 'its abstract names none' },
        source: {
          title: 'Xiao et al. 2024, abstract',
          url: 'https://arxiv.org/abs/2309.17453',
        },
      },
    ],
  },
];

export const COLUMN_TITLES = ['Model', 'For the recorder', 'Source'] as const;
export const COMPARE_LABEL = 'Compare its twin with softmax';
export const OPEN_LABEL = 'open it here';
/** Explains why most of these models do not open here, and how to record them: sentences around a command. */
export const RECORDER_WORDS = {
  before:
    'Without that link a model is too large for a browser, as those of gpt-oss, Granite SWA, MiMo-V2-Flash and Qwen3-Next are, or of a family that this page does not read yet. ' +
    'The Python recorder takes the models in the second column, ',
  command: 'python -m sinkscope record MODEL',
  after: ', and this page opens the recording.',
} as const;

export const hubAddress = (checkpoint: string) => `https://huggingface.co/${checkpoint}`;

interface Twin {
  readonly id: string;
  readonly measured: Readonly<Record<string, number | boolean>>;
  readonly differs?: Difference | null;
  readonly paper?: { readonly says?: string; readonly where: string } | null;
}

const formatSigned = (value: number) =>
  `${value < 0 ? '−' : value > 0 ? '+' : ''}${Math.abs(value).toFixed(3)}`;

/** States the numbers of a remedy's twin and of softmax, and those of a paper's own pair of models. */
export function twinWords({ twin, note }: Remedy, zoo: readonly Twin[]): string {
  const [ownTwin, softmax] = [twin, 'softmax'].map((id) => {
    const twinRow = zoo.find((candidate) => candidate.id === id);
    if (!twinRow) throw new Error(`The twin “${id}”: expected a model of the zoo, found none.`);
    return twinRow;
  }) as [Twin, Twin];
  const sinkPercent = ({ measured }: Twin) => `${Number(measured.sink_1).toFixed(0)}%`;
  const { seeds, alpha: [mean, low, high] = [] } = ownTwin.differs ?? {};
  const comparison =
    mean === undefined
      ? `Sink₁ ${sinkPercent(ownTwin)}, softmax ${sinkPercent(softmax)}, one seed each`
      : `α₁ ${formatSigned(mean)} (${formatSigned(low!)} to ${formatSigned(high!)}) against softmax, ${seeds} seeds`;
  return [
    `Measured: ${comparison}.`,
    ...(note ? [note] : []),
    ...(ownTwin.paper?.says ? [`Reported: ${ownTwin.paper.where}.`] : []),
  ].join(' ');
}
