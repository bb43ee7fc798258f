/** Measures the effect of edits on a model's loss on the reader's text, by two studies that differ by the edits. */
import { parseSubject, printSubject, type SubjectEdit } from '../ask/subject';
import { predictsNext, type Frame, type Head } from '../frame';
import type { Context } from '../page/context';
import type { Study } from '../run/request';

export const ablation = ({ layer, head }: Head): SubjectEdit => ({
  name: 'silence',
  values: [String(layer), String(head)],
});
const withoutKey = (key: number): SubjectEdit => ({ name: 'hide_key', values: [String(key)] });

export const WITHOUT_FIRST = withoutKey(0);
/** The control of WITHOUT_FIRST: nearly all queries see this token too. */
export const WITHOUT_SECOND = withoutKey(1);

/**
 * Whether the effect of edits on the loss can be measured: this needs weights, a model that predicts tokens, and more than one token.
 */
export const canMeasureLossChange = (frame: Frame | undefined): frame is Frame =>
  frame !== undefined && !frame.recording && frame.T > 1 && predictsNext(frame);

/**
 * Returns two studies: that of a frame's subject, and that of the subject with further edits. Both read the text that
 * the frame shows, generated tokens included.
 */
export function lossStudies(
  { subject, question }: Frame,
  edits: readonly SubjectEdit[],
): readonly [Study, Study] {
  const parsedSubject = parseSubject(subject)!;
  const editedSubject = printSubject({
    ...parsedSubject,
    edits: [...parsedSubject.edits, ...edits],
  });
  const studyOf = (text: string): Study => ({ subject: text, question, measures: ['loss_mean'] });
  return [studyOf(subject), studyOf(editedSubject)];
}

/** Returns the change in nats per token; undefined until it is measured, NaN if it cannot be measured. */
export function lossChangeOf(
  frame: Frame,
  edits: readonly SubjectEdit[],
  context: Context,
): number | undefined {
  if (!canMeasureLossChange(frame)) return NaN;
  const queue = context.engine.value?.queue;
  const [base, changed] = lossStudies(frame, edits).map((study) => {
    const entry = queue?.studyEntry(study);
    return entry?.error ? NaN : entry?.frame?.tensors.loss_mean?.data[0];
  });
  return base === undefined || changed === undefined ? undefined : changed - base;
}
