/** A frame of the page as a recording, for others to open. Who saves none does not download this. */
import { recordStudy } from 'sinkscope';
import type { Frame } from '../frame';
import { idsOf } from './runs';
import type { Models } from './models';
import type { OpenModel } from './opened';

/** Fields of the first prompt, from which the views of single heads are drawn again. */
const KEPT = ['att', 'q', 'k', 'v'];

/** @param source where the prompts come from, in words */
export async function recordedFrom(
  frame: Frame,
  opened: OpenModel,
  source: string,
  models: Models,
): Promise<Uint8Array<ArrayBuffer>> {
  if (frame.recording) return models.recordings.bytes(frame.model.id);
  const { model, tokens, generated, ids, eps, edits } = frame;
  const own = generated ? [idsOf(tokens)] : ids;
  return recordStudy(opened.model, own, {
    edits,
    eps: [eps],
    // Of a long text all maps would take gigabytes: their numbers stay.
    fields: frame.pooled ? [] : KEPT,
    strings: (list) => list.map((id) => opened.tokenizer.piece(id)),
    model: { id: model.title, revision: model.commit ?? null, sha256: model.sha256 ?? null },
    source,
  });
}
