/** What is known of a model: how it was made, what was measured of it, and what papers say of such. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Desk } from '../desk';
import { isBidirectional, type Frame } from '../frame';
import { MEASURED_ON, stepOf } from '../timeline/steps';
import { arithmeticOf, operationOf } from '../subject';
import { CLASS_WORDS, classSentence, show } from '../words';
import { seedsOf, type Card, type Reported } from '../zoo';
import { seedsTable } from './seeds_table';

function reportedWords({ sink_1, base, where }: Reported): string {
  const without = base === undefined ? '' : `, ${show(base)} % without what it changes`;
  const figures = sink_1 === undefined ? '' : `Sink₁ ${show(sink_1)} %${without}: `;
  return `Reported: ${figures}${where}.`;
}

/** What was measured of the stored weights when they were put into the zoo. */
function cardWords(card: Card, frame: Frame): TemplateResult {
  const { sink_1, sink_bias, eps, T, sequences, loss } = card.measured;
  const first = card.training?.front?.join(' ') || 'nothing';
  const where = isBidirectional(frame) ? ' at hidden places' : '';
  const bias = sink_bias === undefined ? '' : `, of the bias key ${show(Number(sink_bias), 1)} %`;
  const { own, all } = seedsOf(card);
  const others = all.slice(1).map((one) => `seed ${one.seed}: ${show(one.sink_1, 1)} %`);
  const seeds = others.length ? `seed ${own}; ${others.join(', ')}` : `seed ${own}, the only one`;
  return html`<p>${card.what}</p>
    <p>
      Over ${sequences} held-out sequences (T = ${T}, ε = ${eps}, ${first} first): Sink₁
      ${show(Number(sink_1), 1)} % (${seeds})${bias}, loss${where} ${show(Number(loss))}.
      ${card.paper ? reportedWords(card.paper) : nothing}
    </p>`;
}

/** What was measured of a checkpoint: as it is stored, and of the weights as the run had them. */
function stepWords({ model: { step } }: Frame): TemplateResult | typeof nothing {
  if (!step) return nothing;
  const { sequences, T, eps } = MEASURED_ON;
  return html`<p>
    Kept in ${show(step.bits, 1)} bits a weight. Over ${sequences} held-out sequences (T = ${T}, ε =
    ${eps}, BOS first): Sink₁ ${show(step.stored.sink_1!, 1)} %, loss ${show(step.stored.loss!)}; of
    the exact weights ${show(step.measured.sink_1!, 1)} %, ${show(step.measured.loss!)}.
  </p>`;
}

export function about(frame: Frame, desk: Desk): TemplateResult {
  const { weights } = arithmeticOf(frame.model.id);
  const id = stepOf(weights)?.id ?? weights;
  const card = desk.engine.peek()?.models.zoo.cards.find((one) => one.id === id);
  const edit = operationOf(frame.edits);
  const given = edit ? (edit.parameters ?? {}) : frame.architecture.attention.parameters;
  const parameters = Object.entries(given).map(([name, value]) => `, ${name} = ${show(value)}`);
  const isAsTrained = frame.class === 'measured' && !frame.model.step;
  return html`<details class="more about ${frame.class}">
    <summary>${frame.class === 'counterfactual' ? 'A what-if' : 'About this model'}</summary>
    <p><strong class="badge">${CLASS_WORDS[frame.class]}</strong> ${classSentence(frame)}</p>
    <p>
      <code title=${frame.operation.source}>${frame.operation.formula}${parameters.join('')}</code>
    </p>
    ${stepWords(frame)}
    ${card?.measured.sequences && isAsTrained ? cardWords(card, frame) : nothing}
    ${card && !frame.edits.length ? seedsTable([card], true) : nothing}
  </details>`;
}
