/**
 * The room of embed.html and <sink-scope>: one view as a figure with title, picture and a link to the page. The lab and
 * the experiments are figures, too.
 */
import { html, nothing, render } from 'lit';
import { nameOf, textField, troubleNotes } from '../page/controls';
import { askBar, generateControls } from '../page/room_controls';
import {
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure } from '../page/figure';
import type { CONTROLS } from '../ask/state';
import { headShown } from '../frame';
import { modelName } from '../words';
import { EXPERIMENT, isWholeRoom, LAB, viewNamed } from '../views/index';
import { hasNumbersOf, lackWords, addElement, type View } from '../page/view';
import { addTrainingSlider } from './walk';

const collapseSpaces = (text: string) => text.replace(/\s+/g, ' ').trim();

function sentencesOf(texts: readonly string[]): string[] {
  return [
    ...new Set(texts.flatMap((text) => collapseSpaces(text).split(/(?<=[.!?]) (?=\p{Lu})/u))),
  ];
}

function hidePrintedSentences(figure: HTMLElement, foot: HTMLElement): void {
  const printedText = collapseSpaces(figure.textContent!);
  for (const span of foot.querySelectorAll('[data-finding] > span')) {
    const sentence = collapseSpaces(span.textContent!).replace(/\.$/, '');
    // The figure may print the conditions, in parentheses at the sentence's end, in another place.
    const [aside = ''] = / \([^()]*\)$/.exec(sentence) ?? [];
    const mainText = sentence.slice(0, sentence.length - aside.length);
    // A view of several settings prints one sentence: a label, and a clause for each setting.
    const [label, ...clauses] = mainText.split(': ');
    const isPrinted = [label!, clauses.join(': '), aside].every((words) =>
      printedText.includes(words),
    );
    span.classList.toggle('unseen', isPrinted);
  }
}

/** Returns what the figure's view says about each loaded model; while none is loaded, that they are loading. */
function shownSentences(entries: readonly SubjectEntry[], view: View, context: Context): string[] {
  const state = context.state.value;
  // A model that failed is not loading: its error is above the figure.
  const placeholderOf = (entry: SubjectEntry) =>
    entry.error ? [] : [`Loading ${nameOf(entry, context)} …`];
  const sentences = entries.flatMap((entry) => {
    const { frame } = entry;
    if (!frame) return [];
    if (!(view.fits?.(frame) ?? true)) return `This view does not apply to ${modelName(frame)}.`;
    const { describe } = context.engine.value!.models;
    return hasNumbersOf(view, frame, describe)
      ? view.says(frame, headShown(frame, [view], state), state)
      : lackWords(view, frame) || placeholderOf(entry);
  });
  return sentencesOf(sentences.length ? sentences : entries.flatMap(placeholderOf));
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  if (isWholeRoom(context.state.peek().view)) return void buildWholeRoom(root, context, scope);
  const view = viewNamed(context.state.peek().view);
  const headingPlace = addElement(root, 'room-head');
  const controls = addElement(root, 'figure-controls');
  const figure = new Figure(root, view, context, scope, { isEmbed: true });
  const foot = addElement(root, 'figure-foot', 'p');
  const stepsPlace = addElement(root, 'figure-steps');
  let sliderScope: Scope | undefined;
  let goToStep: ReturnType<typeof addTrainingSlider> | undefined;
  root.addEventListener('choose-step', (event) =>
    goToStep?.((event as CustomEvent<number>).detail),
  );
  figure.root.part.add('figure');
  figure.root.querySelector('h2')?.part.add('title');
  foot.part.add('caption');
  const hasControl = (name: (typeof CONTROLS)[number]) =>
    context.state.value.controls.includes(name);
  const currentEntries = () => entriesOf(context, context.state.value.shown);

  scope.effect(() => {
    const hasSlider = hasControl('step');
    if (hasSlider === Boolean(sliderScope)) return;
    sliderScope?.end();
    sliderScope = hasSlider ? scope.child() : undefined;
    goToStep = sliderScope && addTrainingSlider(stepsPlace, context, sliderScope);
    if (!sliderScope) render(nothing, stepsPlace);
  });

  requestFrames(context, scope, () => ({ views: [view], isFixed: !view.needsSeveralSettings }));

  scope.effect(() => {
    void [context.state.value, context.theme.value];
    const entries = currentEntries();
    const frames = framesOf(entries);
    render(troubleNotes(entries, context), headingPlace);
    render(
      html`${hasControl('question') ? askBar(context, frames) : hasControl('text') ? textField(context, 2) : nothing}
      ${hasControl('generate') ? generateControls(context, frames) : nothing}`,
      controls,
    );
    figure.update(entries);
    render(
      html`<span data-finding
          >${shownSentences(entries, view, context).map((sentence) => html`<span>${sentence}</span> `)}</span
        >
        <span class="foot-tools"
          ><button type="button" class="info" aria-label="About this figure" aria-expanded="false">
            i
          </button>
          <a
            href=${context.link({ room: 'explore' })}
            target="_blank"
            rel="noopener"
            part="link"
            aria-label="Open in Sinkscope"
            ><span class="far">Open in Sinkscope</span></a
          ></span
        >`,
      foot,
    );
    hidePrintedSentences(figure.root, foot);
  });

  // The figure may be drawn later than its sentence.
  const watcher = new MutationObserver(() => hidePrintedSentences(figure.root, foot));
  watcher.observe(figure.root, { childList: true, characterData: true, subtree: true });
  scope.onEnd(() => watcher.disconnect());
}

const wholeRooms: Readonly<Record<string, () => Promise<{ build: Build }>>> = {
  [LAB]: () => import('../lab/embedded'),
  [EXPERIMENT]: () => import('../experiments/bench'),
};
type Build = (root: HTMLElement, context: Context, scope: Scope, isEmbed: true) => void;

async function buildWholeRoom(root: HTMLElement, context: Context, scope: Scope): Promise<void> {
  let hasEnded = false;
  scope.onEnd(() => (hasEnded = true));
  try {
    const module = await wholeRooms[context.state.peek().view]!();
    if (hasEnded) return;
    module.build(root, context, scope, true);
    root.dispatchEvent(new CustomEvent('built', { bubbles: true }));
  } catch (error) {
    context.fail(error);
  }
}
