/** Makes a recording of a frame, for others to open. This module is fetched on the first save. */
import { recordStudy } from 'sinkscope';
import type { Frame } from '../frame';
import { idsOf } from './runs';
import type { Models } from './models';
import type { OpenModel } from './opened';

/** The fields that views of single heads need. */
const HEAD_FIELDS = ['att', 'q', 'k', 'v'];

/** @param source describes where the prompts are from */
export async function makeRecording(
  frame: Frame,
  openModel: OpenModel,
  source: string,
  models: Models,
): Promise<Uint8Array<ArrayBuffer>> {
  if (frame.recording) return models.recordings.bytes(frame.model.id);
  const { model, tokens, generated, ids, eps, edits } = frame;
  const prompts = generated ? [idsOf(tokens)] : ids;
  return recordStudy(openModel.model, prompts, {
    edits,
    eps: [eps],
    // All maps of a long text would take gigabytes, so the recording then has only the metrics.
    fields: frame.pooled ? [] : HEAD_FIELDS,
    strings: (list) => list.map((id) => openModel.tokenizer.piece(id)),
    model: { id: model.title, revision: model.commit ?? null, sha256: model.sha256 ?? null },
    source,
  });
}
