/** A card of a model: the map of one head, and beside it all heads, where a dot marks each with a sink. */
import { html } from 'lit';
import type { Context } from '../page/context';
import type { FigureLook } from '../page/figure';
import type { DrawOptions } from '../page/view';
import { explainTerms } from '../page/terms';
import { addElement } from '../page/view';
import { hasSink } from '../claims';
import { questionKey } from '../ask/question';
import { idWithoutStep } from '../ask/steps';
import { firstTokenWeights, headAt, isHeadNamed, modelHead, type Frame, type Head } from '../frame';
import type { Cell } from '../plot/heatmap';
import { addMapLegend } from '../views/attention';
import { firstName, formatPercent, verdictOf } from '../words';
import { countFigures } from './compared';
import './cards.css';

export interface CardWords {
  readonly title: string;
  /** Says which head the map shows. */
  readonly hint: string;
  /** The name of a CSS variable. */
  readonly color: string;
}

/**
 * Returns a function that says which head a map shows and why: of a model without a chosen head, the one that gives the
 * first token most, or the key `on`, which may be another head on another text.
 */
export function nameHeads(context: Context) {
  const lastHeads = new Map<string, { question: string; name: string; isNew: boolean }>();
  return (frame: Frame, at: Head, on = ''): string => {
    const { layer, head } = modelHead(frame, at);
    const name = `layer ${layer}, head ${head}`;
    const { model, question } = frame;
    if (isHeadNamed(context.state.peek())) return name;
    const [id, key] = [idWithoutStep(model.id), questionKey(question)];
    const last = lastHeads.get(id);
    const isNew = last?.question === key ? last.isNew : last !== undefined && last.name !== name;
    lastHeads.set(id, { question: key, name, isNew });
    const { L, H } = frame.architecture;
    const strongest = on ? `strongest of ${L * H} heads on ${on}` : 'strongest head';
    return `${strongest}${isNew ? ' now' : ''}: ${name}`;
  };
}

/** Returns the cells of the heads with a sink. */
const sinkHeads = (frame: Frame): Cell[] =>
  Array.from(firstTokenWeights(frame)).flatMap((attention, i) => {
    const { layer, head } = headAt(i, frame.architecture.H);
    return hasSink(frame, attention) ? { row: layer, col: head } : [];
  });

/** Returns how the two pictures of a card are drawn: the map of a head, and the map of all heads. */
export function cardLooks(
  wordsOf: (frame: Frame, index: number) => CardWords,
  headOf: (frame: Frame) => Head,
  remarkOf: (frame: Frame) => DrawOptions['remark'],
): { readonly map: FigureLook; readonly heads: FigureLook } {
  return {
    map: {
      isUnstamped: true,
      headOf,
      about: (frame, i) => {
        const { title, hint, color } = wordsOf(frame, i);
        return { title, text: html`<span class="hint">${explainTerms(hint, true)}</span>`, color };
      },
      extra: (frame) => ({ isPlain: true, remark: remarkOf(frame) }),
    },
    heads: {
      isBare: true,
      headOf,
      about: (frame, i) => {
        const title = verdictOf(frame).conclusive ? `${countFigures(frame)} heads` : '';
        // The first card says what the dots of all are.
        if (i && title) return { title, text: html``, color: wordsOf(frame, i).color };
        const words = `${title ? `sink: >${formatPercent(frame.eps, 0)}` : 'attention'} on ${firstName(frame)}`;
        const text = html`<span class="hint"
          >${title ? html`<i class="dot"></i>` : ''} ${explainTerms(words, true)}</span
        >`;
        return { title, text, color: wordsOf(frame, i).color };
      },
      extra: (frame) => ({ isPlain: true, outlined: sinkHeads(frame) }),
    },
  };
}

/** Adds what all cards share: how to read a map, and the scale. */
export function addCardLegend(place: HTMLElement, context: Context) {
  const legend = addElement(place, 'map-legend');
  const drawLegend = addMapLegend(legend);
  return (frames: readonly Frame[]): void => {
    drawLegend({ frames, state: context.state.peek(), theme: context.theme.peek() });
    legend.hidden = !frames.length || frames.some(({ pooled }) => pooled);
  };
}
