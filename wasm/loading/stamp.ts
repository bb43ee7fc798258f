/**
 * Stamps the config and the weights of a trained model with the hashes of both, so that a folder
 * with files of two trainings is refused.
 */
import { SinkscopeError, expect } from '../abi/errors.ts';
import { checksumOf } from './hash.ts';
import { headerBytes } from './safetensors.ts';

const KEY = 'sinkscope_stamp';

type Header = { __metadata__?: Record<string, unknown> } & Record<string, unknown>;

/** Returns config and safetensors with their stamp; the config may carry that of other weights. */
export function stampFiles(config: object, weights: Uint8Array) {
  const { [KEY]: _, ...plainConfig } = config as Record<string, unknown>;
  const header = headerOf(weights);
  expect(header !== undefined, 'weights', 'a safetensors file', weights);
  const { json, end } = header as NonNullable<typeof header>;
  const data = weights.subarray(end);
  const configBytes = new TextEncoder().encode(JSON.stringify(plainConfig));
  const stamp = `${checksumOf(configBytes)}-${checksumOf(data)}`;
  const start = headerBytes({ ...json, __metadata__: { ...json.__metadata__, [KEY]: stamp } });
  const file = new Uint8Array(start.length + data.length);
  file.set(start);
  file.set(data, start.length);
  return { config: { ...plainConfig, [KEY]: stamp }, weights: file };
}

/** Throws if the stamps of both files differ; files without one pass, as other programs drop it. */
export function expectSameStamp(config: Uint8Array, weights: Uint8Array) {
  const configText = new TextDecoder().decode(config);
  if (!configText.includes(KEY)) return;
  const ofConfig = parse(configText)?.[KEY];
  const ofWeights = headerOf(weights)?.json.__metadata__?.[KEY];
  if (ofConfig === ofWeights || ![ofConfig, ofWeights].every((stamp) => typeof stamp === 'string'))
    return;
  throw new SinkscopeError(
    'bad_file',
    'config.json',
    `expected the one that was written with these weights (${KEY} ${String(ofWeights).slice(0, 40)}), ` +
      `found that of another training (${String(ofConfig).slice(0, 40)})`,
  );
}

function headerOf(file: Uint8Array): { json: Header; end: number } | undefined {
  if (file.length < 8) return undefined;
  const length = new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true);
  if (length > file.length - 8) return undefined;
  const end = 8 + Number(length);
  // The copy leaves shared memory, which no decoder reads.
  const json = parse(new TextDecoder().decode(file.slice(8, end)));
  return json && { json, end };
}

/** Returns the object of a JSON text; undefined for any other text. */
function parse(text: string): Header | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === 'object' && json !== null ? (json as Header) : undefined;
  } catch {
    return undefined;
  }
}
