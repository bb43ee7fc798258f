/** The sink map: alpha of token 1 in every head, before any threshold. */
import { alphaOfKey, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import { massOf, percent, show, sinkOf, stampWords } from '../words';
import { createHeadMap } from './head_map';
import { numberPlace, type ViewKind } from './view';

function bigNumber(frame: Frame): string {
  const raw = frame.tensors.sink_ratio_raw.data[0];
  const own = frame.operation.normalises
    ? ''
    : ` · from raw weights ${percent(raw)} · mean row mass ${show(massOf(frame))}`;
  const near = frame.tensors.near_eps.data[0];
  const close = near ? ` · ${show(near, Number.isInteger(near) ? 0 : 2)} within 0.002 of ε` : '';
  return own + close;
}

function numbers(frame: Frame, figure: HTMLElement, small: HTMLElement): void {
  const star = frame.operation.normalises ? '' : '*';
  figure.textContent = `${percent(sinkOf(frame))}${star}`;
  small.textContent = stampWords(frame) + bigNumber(frame);
}

export const sinks: ViewKind = {
  name: 'sinks',
  title: 'Sink map',
  stamped: true,
  averaged: true,
  how:
    'A cell is a head, its colour α₁: the mean attention that token 1 receives. Sink₁ is the share ' +
    'of heads with α₁ > ε; * marks shares of rows that need not sum to 1. Click a head to open it.',
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const alpha = { shape: [L, H], data: alphaOfKey(frame, 0) };
    return [
      quantity('sink_1', [], { shape: [], data: frame.tensors.sink_ratio.data.slice(0, 1) }),
      quantity('alpha_1', ['layer', 'head'], alpha),
    ];
  },
  create(root, reach) {
    const { figure, small } = numberPlace(root, 'Sink₁');
    const map = createHeadMap(root, reach);
    let alpha: { of: Frame; data: Float32Array } | undefined;
    return {
      update(frame, context) {
        if (alpha?.of !== frame) alpha = { of: frame, data: alphaOfKey(frame, 0) };
        const { L, H } = frame.architecture;
        numbers(frame, figure, small);
        const label =
          `Sink score of token 1 for ${L} layers by ${H} heads of ${frame.model.title}; ` +
          `${percent(sinkOf(frame))} exceed ${frame.eps}.`;
        map.draw(frame, context, { data: alpha.data, symbol: 'α₁', label });
      },
    };
  },
};
