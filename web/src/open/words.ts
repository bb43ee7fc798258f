/** Words that describe a plan before the page loads anything. */
import type { Plan } from 'sinkscope';
import { sizeWords } from '../run/progress';

const FORMATS = { safetensors: 'safetensors', pytorch: 'PyTorch', gguf: 'GGUF' } as const;

/** Whether the weights come from a network, not from the reader's disk. */
export const isDownload = ({ files }: Plan): boolean => files.weights.some(({ url }) => url);

export function planRows(plan: Plan, cachedBytes: number): readonly (readonly [string, string])[] {
  const { weights } = plan.files;
  const isRemote = isDownload(plan);
  const [weightFile, ...otherFiles] = weights;
  const files =
    weightFile && !otherFiles.length
      ? weightFile.name
      : `${weights.length} files, ${FORMATS[plan.format]}`;
  const commit = plan.commit ? ` (commit ${plan.commit.slice(0, 8)})` : '';
  const size = plan.bytes ? sizeWords(plan.bytes) : 'size unknown';
  const sizeNote =
    cachedBytes > 0 && isRemote
      ? `${sizeWords(Math.max(0, plan.bytes - cachedBytes))}; ${sizeWords(cachedBytes)} of ${sizeWords(plan.bytes)} are cached`
      : size;
  const license = plan.license ?? (isRemote ? 'not stated' : undefined);
  const source = plan.remembered && 'cached from an earlier visit (Hugging Face cannot be reached)';
  const rows = [
    ['revision', isRemote && `${plan.revision ?? 'main'}${commit}`],
    ['weights', files],
    [isRemote ? 'to download' : 'on your disk', sizeNote],
    ['memory', `about ${sizeWords(plan.memory)}`],
    ['tokenizer', tokenizerWords(plan)],
    ['license', license],
    ['source', source],
  ] as const;
  return rows.flatMap(([name, value]) => (value ? [[name, value] as const] : []));
}

function tokenizerWords({ format, files }: Plan): string {
  if (format === 'gguf') return 'in the GGUF file';
  if (files.tokenizer) return 'tokenizer.json';
  if (files.words) return 'vocab.txt';
  if (files.vocab && files.merges) return 'vocab.json and merges.txt';
  return 'none: a text is a list of token ids, such as 1, 2, 3';
}
