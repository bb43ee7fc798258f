/** A card of a model: the map of one head, and the legend that all cards share. */
import { html, render, type TemplateResult } from 'lit';
import type { Context } from '../page/context';
import type { FigureLook } from '../page/figure';
import type { DrawOptions } from '../page/view';
import { addElement } from '../page/view';
import type { Frame, Head } from '../frame';
import { addMapLegend } from '../views/attention';
import './cards.css';

interface CardWords {
  readonly title: string;
  /** Says what the rows of the map sum to, or nothing. */
  readonly hint: string;
  /** The name of a CSS variable. */
  readonly color: string;
}

/** Returns how a card is drawn. */
export const cardLook = (
  wordsOf: (frame: Frame) => CardWords,
  headOf: (frame: Frame) => Head,
  remarkOf: (frame: Frame) => DrawOptions['remark'],
): FigureLook => ({
  isUnstamped: true,
  headOf,
  about: (frame) => {
    const { title, hint, color } = wordsOf(frame);
    return { title, text: html`<span class="hint">${hint}</span>`, color };
  },
  extra: (frame) => ({ isPlain: true, remark: remarkOf(frame) }),
});

/** Adds what all cards share: which heads they show, how to read a map, and the scale. */
export function addCardLegend(
  place: HTMLElement,
  context: Context,
  headsOf: (frames: readonly Frame[]) => TemplateResult,
) {
  const legend = addElement(place, 'map-legend');
  const headsPlace = addElement(legend, '', 'span');
  const drawLegend = addMapLegend(legend);
  return (frames: readonly Frame[]): void => {
    drawLegend({ frames, state: context.state.peek(), theme: context.theme.peek() });
    if (frames.length) render(html`${headsOf(frames)};`, headsPlace);
    legend.hidden = !frames.length || frames.some(({ pooled }) => pooled);
  };
}
