/** A card of a model: the map of one head, and the legend that all cards share. */
import { html } from 'lit';
import type { Context } from '../page/context';
import type { FigureLook } from '../page/figure';
import type { DrawOptions } from '../page/view';
import { explainTerms } from '../page/terms';
import { addElement } from '../page/view';
import { questionKey } from '../ask/question';
import { idWithoutStep } from '../ask/steps';
import { isHeadNamed, type Frame, type Head } from '../frame';
import { headName } from '../words';
import { addMapLegend } from '../views/attention';
import './cards.css';

interface CardWords {
  readonly title: string;
  /** Says which head the map shows. */
  readonly hint: string;
  /** The name of a CSS variable. */
  readonly color: string;
}

/**
 * Returns a function that says which head a map shows and why: of a model without a chosen head, the one that gives the
 * first token most, or a typical one of those at the slot `on`, which may be another head on another text.
 */
export function nameHeads(context: Context) {
  const lastHeads = new Map<string, { question: string; name: string; isNew: boolean }>();
  return (frame: Frame, at: Head, on = ''): string => {
    const name = headName(at, frame);
    const { model, question } = frame;
    if (isHeadNamed(context.state.peek())) return name;
    const [id, key] = [idWithoutStep(model.id), questionKey(question)];
    const last = lastHeads.get(id);
    const isNew = last?.question === key ? last.isNew : last !== undefined && last.name !== name;
    lastHeads.set(id, { question: key, name, isNew });
    return `${on ? `typical head on ${on}` : 'strongest'}${isNew ? ' now' : ''}: ${name}`;
  };
}

/** Returns how a card is drawn. */
export const cardLook = (
  wordsOf: (frame: Frame, index: number) => CardWords,
  headOf: (frame: Frame) => Head,
  remarkOf: (frame: Frame) => DrawOptions['remark'],
): FigureLook => ({
  isUnstamped: true,
  headOf,
  about: (frame, i) => {
    const { title, hint, color } = wordsOf(frame, i);
    return { title, text: html`<span class="hint">${explainTerms(hint, true)}</span>`, color };
  },
  extra: (frame) => ({ isPlain: true, remark: remarkOf(frame) }),
});

/** Adds what all cards share: how to read a map, and the scale. */
export function addCardLegend(place: HTMLElement, context: Context) {
  const legend = addElement(place, 'map-legend');
  const drawLegend = addMapLegend(legend);
  return (frames: readonly Frame[]): void => {
    drawLegend({ frames, state: context.state.peek(), theme: context.theme.peek() });
    legend.hidden = !frames.length || frames.some(({ pooled }) => pooled);
  };
}
