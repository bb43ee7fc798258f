/** Renders facts about a model: its training, its measurements, and what papers report of such models. */
import { html, nothing, type TemplateResult } from 'lit';
import { until } from 'lit/directives/until.js';
import { cardOf, type Context } from '../page/context';
import { isBidirectional, type Frame } from '../frame';
import { MEASURING_CONDITIONS } from '../ask/steps';
import { operationOf } from '../ask/subject';
import { CLASS_WORDS, classWords, formatValue } from '../words';
import { seedsOf, type Card, type Reported } from '../ask/zoo';
import { seedsTable } from './seeds_table';

function reportedWords({ sink_1, base, where }: Reported): string {
  const baselineWords = base === undefined ? '' : `, baseline ${formatValue(base)}%`;
  const sinkWords = sink_1 === undefined ? '' : `Sink₁ ${formatValue(sink_1)}%${baselineWords}: `;
  return `Reported: ${sinkWords}${where}.`;
}

/** States what was measured of the stored weights when the model was added to the zoo. */
function cardWords(card: Card, frame: Frame): TemplateResult {
  const { sink_1, sink_bias, eps, T, sequences, loss } = card.measured;
  const startTokens = card.training?.front?.join(' ');
  const startWords = startTokens ? `starting with ${startTokens}` : 'no start token';
  const suffix = isBidirectional(frame) ? ' at masked positions' : '';
  const biasWords =
    sink_bias === undefined ? '' : `, on the bias key ${formatValue(Number(sink_bias), 1)}%`;
  const { shippedSeed, all } = seedsOf(card);
  const seedWords = all.slice(1).map((run) => `seed ${run.seed}: ${formatValue(run.sink_1, 1)}%`);
  const seedsNote = seedWords.length
    ? `seed ${shippedSeed}; ${seedWords.join(', ')}`
    : `seed ${shippedSeed}, the only one`;
  return html`<p>${card.what}</p>
    <p>
      Over ${sequences} held-out sequences (T = ${T}, ε = ${eps}, ${startWords}): Sink₁
      ${formatValue(Number(sink_1), 1)}% (${seedsNote})${biasWords}, loss${suffix}
      ${formatValue(Number(loss))}. ${card.paper ? reportedWords(card.paper) : nothing}
    </p>`;
}

function checkpointWords({ model: { step } }: Frame): TemplateResult | typeof nothing {
  if (!step?.weights) return nothing;
  const { bits, measured, stored } = step.weights;
  const { sequences, T, eps } = MEASURING_CONDITIONS;
  return html`<p>
    Stored at ${formatValue(bits, 1)} bits per weight. Over ${sequences} held-out sequences (T =
    ${T}, ε = ${eps}, with start token): Sink₁ ${formatValue(stored.sink_1!, 1)}%, loss
    ${formatValue(stored.loss!)}; exact weights: ${formatValue(measured.sink_1!, 1)}%,
    ${formatValue(measured.loss!)}.
  </p>`;
}

async function formulaWords(
  { operation }: Frame,
  context: Context,
  parameters: string,
): Promise<TemplateResult> {
  const tables = await context.engine.peek()?.models.explain();
  const row = tables?.operations.find(({ name }) => name === operation.name);
  const { formula, source } = row ?? operation;
  return html`<code title=${source ?? nothing}>${formula ?? operation.label}${parameters}</code>`;
}

export function aboutModel(frame: Frame, context: Context): TemplateResult {
  const card = cardOf(frame, context);
  const edit = operationOf(frame.edits);
  const operationParameters = edit
    ? (edit.parameters ?? {})
    : frame.architecture.attention.parameters;
  const parameters = Object.entries(operationParameters).map(
    ([name, value]) => `, ${name} = ${formatValue(value)}`,
  );
  const isAsTrained = frame.class === 'measured' && !frame.model.step;
  return html`<details class="more about ${frame.class}">
    <summary>
      ${frame.class === 'counterfactual' ? 'About this counterfactual' : 'About this model'}
    </summary>
    <p><strong class="badge">${CLASS_WORDS[frame.class]}</strong> ${classWords(frame)}</p>
    <p>${until(formulaWords(frame, context, parameters.join('')), nothing)}</p>
    ${checkpointWords(frame)}
    ${card?.measured.sequences && isAsTrained ? cardWords(card, frame) : nothing}
    ${card && !frame.edits.length ? seedsTable([card]) : nothing}
  </details>`;
}
