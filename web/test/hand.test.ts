import { describe, expect, test } from 'vitest';
import { superWeightOf } from '../src/frame';
import { toggleEdit, interventionsOf } from '../src/page/hand';
import { defaults } from '../src/ask/state';
import { withoutEdits } from '../src/ask/subject';
import { change, lossChange } from '../src/views/change';
import { frameOf, tensor } from './fixture';

const massive = {
  massive: tensor([3, 4], [1, 0, 0, 1, 9, 0, 0, 1, 5, 0, 0, 1]),
  massive_at: tensor([3, 3, 2], [0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]),
};

describe('interventions by hand', () => {
  test('act on the selected key, value, head or channel', () => {
    const frame = frameOf({}, massive);
    const editsOf = (change: Partial<typeof defaults>) =>
      interventionsOf(frame, { ...defaults, layer: 1, head: 0, ...change }).map(({ edit }) =>
        [edit.name, ...edit.values].join(' '),
      );
    const always = ['silence 1 0', 'clamp_channel 7 1 2', 'clamp_channel 7 1 2 to=mean'];
    expect(editsOf({})).toEqual(['hide_key 0', 'scale_value 0 0', ...always]);
    expect(editsOf({ key: 2 })).toEqual(['hide_key 2', 'scale_value 2 0', ...always]);
    expect(editsOf({ query: 1 })).toEqual(['hide_key 1', 'scale_value 1 0', ...always]);
    expect(editsOf({ key: 0, scope: 'layer' })).toEqual([
      'hide_key 0 1',
      'scale_value 0 0 1',
      ...always,
    ]);
    expect(editsOf({ key: 0, scope: 'head' })).toEqual([
      'hide_key 0 1 0',
      'scale_value 0 0 1 0',
      ...always,
    ]);
    expect(editsOf({ key: 3 })).toEqual(always); // beyond the text
    expect(editsOf({ channel: 4, query: 1 }).slice(-2)).toMatchSnapshot();
    expect(editsOf({ channel: 4, query: 1, layer: -1 }).at(-1)).toBe('clamp_channel 4 1 1 to=mean');
    expect(editsOf({ channel: 99, query: 1 }).slice(-2)).toEqual(always.slice(-2)); // no such channel
  });

  test('zero the super weight if it is known', () => {
    const super_weight = tensor([2, 6], [3, 5, 0, 0.5, 4, 2, 1, 6, 2, -0.5, 8, -5]);
    const lastIntervention = (frame: Parameters<typeof interventionsOf>[0]) =>
      interventionsOf(frame, defaults).at(-1)!;
    expect(superWeightOf(frameOf({}, { super_weight }))).toMatchObject({ layer: 1, share: 0.8 });
    expect(lastIntervention(frameOf({}, { super_weight })).edit).toMatchSnapshot();
    // A model with experts has no super weight.
    const noSuperWeight = frameOf(
      {},
      { super_weight: tensor([2, 6], new Float32Array(12).fill(NaN)) },
    );
    expect(lastIntervention(noSuperWeight).edit.name).toBe('silence');
  });

  test('drop a value for the heads that share it', () => {
    const { architecture } = frameOf();
    const frame = frameOf({ architecture: { ...architecture, H: 2, G: 1 } });
    const at = { ...defaults, layer: 0, head: 1, key: 0, scope: 'head' as const };
    expect(interventionsOf(frame, at)[1]!.edit.values).toEqual(['0', '0', '0', '0']);
  });

  test('are undone by applying them again', () => {
    const silence = { name: 'silence', values: ['3', '1'] };
    const edited = toggleEdit('softmax@1400~evict(window,24)', silence);
    expect(edited).toBe('softmax@1400~evict(window,24)~silence(3,1)');
    expect(toggleEdit(edited, silence)).toBe('softmax@1400~evict(window,24)');
    for (const other of [
      { name: 'silence', values: ['3', '2'] },
      { name: 'mask', values: ['3', '1'] },
    ])
      expect(toggleEdit(edited, other)).toBe(`${edited}~${other.name}(${other.values.join()})`);
    expect(withoutEdits(edited)).toBe('softmax@1400');
    expect(withoutEdits('hub:owner/name@main~mask(1,4)')).toBe('hub:owner/name@main');
  });
});

describe('the view of a change by an intervention', () => {
  const baseline = frameOf({}, { loss_at: tensor([3], [NaN, 2, 1]) });
  const editedFrame = frameOf(
    { edits: [{ kind: 'silence' }], base: baseline },
    {
      loss_at: tensor([3], [NaN, 2.5, 4]),
      alpha: tensor([2, 2, 3], [0.1, 0, 0, 0.4, 0, 0, 0.2, 0, 0, 0.3, 0, 0]),
    },
  );

  test('subtracts the unedited frame from the edited one', () => {
    expect([...lossChange(editedFrame, baseline)]).toEqual([NaN, 0.5, 3]);
    expect(change.fits!(editedFrame)).toBe(true);
    expect(change.fits!(baseline)).toBe(false);
    const sentence = change.says(editedFrame, { layer: 1, head: 0 });
    expect([sentence, sentence]).toMatchSnapshot();
  });

  test('says why it has no numbers if the two runs read different tokens', () => {
    const at = { layer: 0, head: 0 };
    const tokens = [...baseline.tokens.slice(0, 2), { ...baseline.tokens[2]!, id: 9 }];
    const otherFrame = { ...editedFrame, base: { ...baseline, tokens } };
    expect(change.fits!(otherFrame)).toBe(true);
    expect(change.numbers(otherFrame, at)).toEqual([]);
    expect(change.says(otherFrame, at)).toMatchSnapshot();
    expect(change.says({ ...otherFrame, generated: 1 }, at)).toMatchSnapshot();
    const shortBase = { ...baseline, T: 2, tokens: tokens.slice(0, 2) };
    expect(change.numbers({ ...editedFrame, base: shortBase }, at)).toEqual([]);
  });

  test('names its numbers differently from those of the frame', () => {
    const names = change.numbers(editedFrame, { layer: 1, head: 0 }).map(({ name }) => name);
    expect(names.slice(0, 2)).toEqual(['loss_change_at', 'alpha_1_change']);
  });
});
