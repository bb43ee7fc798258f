/** Start's first picture: its frames are saved with the page, and shown until its models have answered. */
import { html, nothing, type TemplateResult } from 'lit';
import { questionKey, questionOf } from '../ask/question';
import { isHeadNamed } from '../frame';
import { framesOf, type Context, type SubjectEntry } from '../page/context';
import { elapsed } from '../page/elapsed';
import { failure } from '../page/messages';
import { loadWords } from '../run/progress';

/**
 * Returns a function that adds the saved frames to entries without one: only to a question that the saved frames answer,
 * or as stale where the reader has changed it and no model has answered yet. They stay beside a model's error.
 * @param isDue whether the model of the entry with this index is requested
 */
export function savedEntries(
  { state, saved: readSaved }: Context,
  isDue: (index: number) => boolean,
) {
  const saved = readSaved?.() ?? [];
  let wasShown = false;
  return (entries: readonly SubjectEntry[]): readonly SubjectEntry[] => {
    const [first] = saved;
    if (!first) return entries;
    const isAnswered =
      questionKey(questionOf(state.value)) === questionKey(first.question) &&
      !isHeadNamed(state.value);
    wasShown ||= isAnswered;
    if (!isAnswered && (!wasShown || framesOf(entries).length)) return entries;
    return entries.map((entry, i) => {
      const frame = saved.find(({ subject }) => subject === entry.subject);
      const isShown = frame && !entry.frame && isDue(i);
      return isShown ? { ...entry, frame, isStale: !isAnswered } : entry;
    });
  };
}

/** Says that a picture is saved, and how much of its model has been fetched; nothing if the models have drawn all. */
export function savedLine(
  entries: readonly SubjectEntry[],
  { fetched }: Context,
): TemplateResult | typeof nothing {
  const shownFrames = framesOf(entries);
  const [frame, ...others] = shownFrames.filter(({ isSaved }) => isSaved);
  if (!frame) return nothing;
  const isPart = others.length + 1 < shownFrames.length;
  const hasFailed = failure.value || entries.find((entry) => entry.frame === frame)!.error;
  const subject = isPart ? `${frame.title}: recorded; it` : 'Recorded; the model';
  const progress = fetched?.value[frame.model.id];
  const words = hasFailed
    ? `${subject} has not loaded.`
    : `${subject} is loading${progress ? `: ${loadWords(progress)}` : ''}`;
  return html`<p class="start-saved">${words}${hasFailed ? nothing : elapsed(words)}</p>`;
}
