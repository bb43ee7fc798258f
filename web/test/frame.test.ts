import { describe, expect, it } from 'vitest';
import {
  alphaOfKey,
  isBidirectional,
  mapOf,
  mean,
  ofHead,
  seenBy,
  selectedHead,
  type Frame,
} from '../src/frame';
import { conditions, classSentence, finding, percent, readable, show } from '../src/words';

/** Two layers of two heads over three tokens; head (1, 0) is the strongest sink. */
function frame(change: Partial<Frame> = {}): Frame {
  const alpha = [0.1, 0, 0, 0.2, 0, 0, 0.9, 0, 0, 0.3, 0, 0];
  const att = Array.from({ length: 2 * 2 * 9 }, (_, i) => i);
  const operation = { name: 'softmax', label: 'softmax', normalises: true, proxy: 'weights' };
  return {
    model: { id: 'm', title: 'Softmax twin', source: 'zoo' },
    class: 'measured',
    architecture: {
      L: 2,
      H: 2,
      parameters: 1.5e6,
      mask: { kind: 'causal' },
      attention: { operation: 'softmax' },
    },
    operation,
    edits: [],
    tokens: [{ id: 0, text: '<s>', start: 0, end: 0, special: true }],
    T: 3,
    eps: 0.3,
    first: ['<s>'],
    special: { automatic: [], bos: '<s>', choices: ['<s>'] },
    sequences: 1,
    tensors: {
      alpha: { shape: [2, 2, 3], data: Float32Array.from(alpha) },
      att: { shape: [2, 2, 3, 3], data: Float32Array.from(att) },
      sink_ratio: { shape: [3], data: Float32Array.from([0.25, 0, 0]) },
      row_mass: { shape: [2, 2, 3], data: new Float32Array(12).fill(0.5) },
    },
    ...change,
  } as unknown as Frame;
}

describe('a frame', () => {
  it('gives one head its own numbers', () => {
    expect([...ofHead(frame().tensors.alpha, 1, 1)]).toEqual([Math.fround(0.3), 0, 0]);
  });

  it('has no weight for keys after the query', () => {
    expect([...mapOf(frame(), 0, 1)]).toEqual([9, NaN, NaN, 12, 13, NaN, 15, 16, 17]);
  });

  it('has them where tokens see later ones', () => {
    const masked = (mask: object) => {
      const { architecture } = frame();
      return frame({ architecture: { ...architecture, mask } as Frame['architecture'] });
    };
    const all = masked({ kind: 'bidirectional' });
    const prefix = masked({ kind: 'prefix', prefix: 2 });
    expect([...mapOf(all, 0, 0)]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect([...mapOf(prefix, 0, 0)]).toEqual([0, 1, NaN, 3, 4, NaN, 6, 7, 8]);
    expect([0, 1, 2].map((t) => seenBy(prefix, t))).toEqual([2, 2, 3]);
    expect([frame(), all, prefix].map(isBidirectional)).toEqual([false, true, false]);
  });

  it('leaves the recorded weights alone', () => {
    const one = frame();
    mapOf(one, 0, 0);
    expect(one.tensors.att.data[1]).toBe(1);
  });

  it('selects the strongest sink where nothing is chosen', () => {
    expect(selectedHead(frame(), -1, -1)).toEqual({ layer: 1, head: 0 });
  });

  it('stays inside a model with fewer heads', () => {
    expect(selectedHead(frame(), 7, 9)).toEqual({ layer: 1, head: 1 });
  });

  it('takes means and single keys', () => {
    expect([...alphaOfKey(frame(), 0)].map((x) => x.toFixed(1))).toEqual([
      '0.1',
      '0.2',
      '0.9',
      '0.3',
    ]);
    expect(mean([9, 1, 2], 1)).toBe(1.5);
    expect(mean([])).toBeNaN();
  });
});

describe('the words', () => {
  it('shows a dash for what is undefined', () => {
    expect([show(NaN), show(Infinity), percent(NaN)]).toEqual(['–', '–', '–']);
  });

  it('shows what fixed digits would hide', () => {
    expect([show(0.00012), show(123456), show(0), show(-1.005, 1)]).toEqual([
      '1.2e-4',
      '1.2e+5',
      '0.00',
      '-1.0',
    ]);
  });

  it('makes white space visible', () => {
    expect(readable(' a\n\t')).toBe('\u00a0a↵⇥');
    expect(readable('')).toBe('∅');
  });

  it('carries every condition', () => {
    expect(conditions(frame({ sequences: 5, first: [] }))).toBe(
      'ε = 0.3 · T = 3 · no BOS · mean of 5 sequences · Softmax twin',
    );
  });

  it('never calls a swap measured', () => {
    const operation = { label: 'sigmoid', normalises: false } as Frame['operation'];
    const swapped = frame({ class: 'counterfactual', operation });
    expect(classSentence(swapped)).toContain('does not show what a model trained with');
    expect(conditions(swapped)).toContain('edit: sigmoid');
    expect(finding(swapped, undefined)).toContain('need not sum to 1: they carry 0.50');
  });

  it('says what one sees, with its numbers', () => {
    expect(finding(frame(), undefined)).toBe(
      '1 of the 4 heads of the softmax twin give the first token, “<s>”, more than 30 % of their ' +
        'attention (the strongest: 90 %).',
    );
  });
});
