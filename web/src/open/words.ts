/** Words that describe a plan before the page loads anything. */
import type { Plan } from 'sinkscope';
import { sizeWords } from '../run/progress';

const FORMATS = { safetensors: 'safetensors', pytorch: 'PyTorch', gguf: 'GGUF' } as const;

/** Whether the weights come from a network, not from the reader's disk. */
export const isDownload = ({ files }: Plan): boolean => files.weights.some(({ url }) => url);

export function planRows(plan: Plan, kept: number): readonly (readonly [string, string])[] {
  const { weights } = plan.files;
  const isRemote = isDownload(plan);
  const [one, ...more] = weights;
  const files = one && !more.length ? one.name : `${weights.length} files, ${FORMATS[plan.format]}`;
  const commit = plan.commit ? ` (commit ${plan.commit.slice(0, 8)})` : '';
  const rows: [string, string][] = [
    ['weights', files],
    [
      isRemote ? 'to download' : 'on your disk',
      kept > 0 && isRemote
        ? `${sizeWords(Math.max(0, plan.bytes - kept))}; ${sizeWords(kept)} of ${sizeWords(plan.bytes)} are cached`
        : plan.bytes
          ? sizeWords(plan.bytes)
          : 'size unknown',
    ],
    ['memory', `about ${sizeWords(plan.memory)}`],
    ['tokenizer', tokenizerWords(plan)],
  ];
  if (isRemote) {
    rows.unshift(['revision', `${plan.revision ?? 'main'}${commit}`]);
    rows.push(['license', plan.license ?? 'not stated']);
  } else if (plan.license) rows.push(['license', plan.license]);
  if (plan.remembered)
    rows.push(['source', 'cached from an earlier visit (Hugging Face cannot be reached)']);
  return rows;
}

function tokenizerWords({ format, files }: Plan): string {
  if (format === 'gguf') return 'in the GGUF file';
  if (files.tokenizer) return 'tokenizer.json';
  if (files.words) return 'vocab.txt';
  if (files.vocab && files.merges) return 'vocab.json and merges.txt';
  return 'none: a text is a list of token ids, such as 1, 2, 3';
}
