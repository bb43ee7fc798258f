import { describe, expect, it, vi } from 'vitest';
import {
  SinkscopeError,
  type Describe,
  type RunRead,
  type Recording,
  type Tensor,
} from 'sinkscope';
import {
  addressOfRecording,
  idOfAddress,
  idOfRecordingFile,
  isRecordingId,
  isRecordingFile,
  isDiskRecording,
  nameOfRecording,
} from '../src/ask/recordings';
import { questionOf } from '../src/ask/question';
import { defaults, parseHash, printHash } from '../src/ask/state';
import { editsOf, parseSubject, printSubject, splitSubjects } from '../src/ask/subject';
import { hiddenLayer, mapsOf, selectedHead, type Frame } from '../src/frame';
import { hasNumbersOf, lackWords, type View } from '../src/page/view';
import { completeFrame } from '../src/run/reading';
import { metricsOf, tableOf } from '../src/rooms/metrics';
import { recordedFrame, recordedRun } from '../src/run/recorded_frame';
import { Recordings } from '../src/run/recordings';
import { findingWords, headName, headsWords, stampWords } from '../src/words';

describe('ids of recordings', () => {
  it('are their addresses, with any characters', () => {
    for (const address of [
      'https://a.example/r.safetensors',
      'https://a.example/x~y,z/r%20s.safetensors?a=1@2#b',
      'http://127.0.0.1:8000/deep/er/r.safetensors@1400',
    ]) {
      const id = idOfAddress(address);
      expect(parseSubject(id)?.id).toBe(id);
      expect(splitSubjects(`softmax,${id}`)).toHaveLength(2);
      expect(decodeURIComponent(addressOfRecording(id)!.href)).toBe(
        decodeURIComponent(new URL(address).href),
      );
      const { state } = parseHash(`shown=${encodeURIComponent(id)}`);
      expect(state.shown).toEqual([id]);
      expect(parseHash(printHash(state)).state.shown).toEqual([id]);
    }
  });

  it('may contain a step of a series, and edits, which fail later', () => {
    const subject = parseSubject('recording:a.safetensors@14~sigmoid')!;
    expect([subject.id, subject.step]).toEqual(['recording:a.safetensors', 14]);
    expect(printSubject(subject)).toBe('recording:a.safetensors@14~sigmoid');
    expect(() => editsOf(subject, { operations: [], edits: [] } as unknown as Describe)).toThrow();
    expect(nameOfRecording('recording:a.safetensors@14')).toBe('a');
    const address = 'https://a.example/r@14/s@20';
    expect(addressOfRecording(`recording:${address}@14`)!.href).toBe(address);
  });

  it('identify a file on a disk by its content', async () => {
    const id = await idOfRecordingFile(new File(['abc'], 'my file,~.safetensors'));
    expect(id).toMatch(/^recording:disk:[0-9a-f]{16}\/my-file-.safetensors$/);
    expect([isRecordingId(id), isDiskRecording(id), addressOfRecording(id)]).toEqual([
      true,
      true,
      undefined,
    ]);
    expect(nameOfRecording(id)).toBe('my-file-');
    expect(nameOfRecording('recording:https://a.example/%E0%A4%A')).toBe('%E0%A4%A');
  });

  it('are given only to files whose header states a version of recordings', async () => {
    const file = (header: string, length = header.length) => {
      const start = new Uint8Array(8);
      new DataView(start.buffer).setBigUint64(0, BigInt(length), true);
      return new Blob([start, header]);
    };
    expect(await isRecordingFile(file('{"__metadata__":{"sinkscope.recording":"1"}}'))).toBe(true);
    expect(await isRecordingFile(file('{"a":1}'))).toBe(false);
    expect(await isRecordingFile(file('"sinkscope.recording"', 2 ** 40))).toBe(false);
    expect(await isRecordingFile(new Blob(['abc']))).toBe(false);
  });
});

const describe_ = {
  operations: [
    { name: 'softmax', normalizes: true, label: 'softmax', parameters: [] },
    {
      name: 'sink_logit',
      normalizes: false,
      label: 'sink logit',
      parameters: [{ per_head: true }],
    },
  ],
  metrics: [
    { name: 'alpha', shape: ['L', 'H', 'T'], arguments: ['tokens'], fields: ['att'] },
    { name: 'sink_ratio', shape: ['T'], arguments: ['eps', 'tokens'], fields: ['att'] },
    { name: 'kurtosis', shape: ['L+1'], arguments: [], fields: ['hidden'] },
  ],
  fields: [
    { name: 'att', needs: null },
    { name: 'q', needs: null },
  ],
  edits: [],
} as unknown as Describe;

const tensor = (shape: number[], data: number[]): Tensor => ({
  shape,
  data: Float32Array.from(data),
});

function createRecording(tokens = ['<s>', 'a', '<b>']): Recording {
  const files: Record<string, Tensor> = {
    'mean.alpha': tensor([1, 2, 3], [0.9, 0.1, 0, 0.8, 0.1, 0.1]),
    'deviation.alpha': tensor([1, 2, 3], [0.1, 0, 0, 0.2, 0, 0]),
    'mean.sink_ratio': tensor([2, 3], [1, 0, 0, 0.75, 0, 0]),
    'prompt.sink_1': tensor([4, 2], [1, 1, 1, 0.5, 1, 0.5, 1, 1]),
    '0.att': tensor([1, 2, 3, 3], Array<number>(18).fill(1)),
  };
  return {
    tensors: new Map(Object.keys(files).map((name) => [name, { dtype: 'F32', shape: [] }])),
    tokens: [5, 6, 7],
    architecture: {
      family: 'f',
      L: 1,
      H: 2,
      G: 2,
      K: 1,
      U: 1,
      D: 1,
      V: 9,
      F: 0,
      E: 0,
      mask: { kind: 'causal' },
    },
    conditions: {
      model: { id: 'A model', revision: 'r', sha256: null, operation: 'softmax' },
      first: { token: '<s>', id: 5, position: 0 },
      tokens: [tokens],
      prompts: { count: 4, kept: 1, T: 3 },
      eps: [0.1, 0.3],
      edits: [],
      class: 'MEASURED',
    },
    tensor: async (name: string) => files[name]!,
    mean: async (name: string, { eps = 0 } = {}) => {
      const meanTensor = files[`mean.${name}`]!;
      const at = eps === 0.3 ? 3 : 0;
      return name === 'sink_ratio'
        ? tensor([3], Array.from(meanTensor.data.slice(at, at + 3)))
        : meanTensor;
    },
    deviation: async (name: string) => files[`deviation.${name}`]!,
    read: async ([read]: RunRead[]) => {
      const name = 'field' in read! ? read.field : read!.metric;
      if (name === 'att') return [tensor([3, 3], Array<number>(9).fill(1))];
      if (name === 'q')
        throw new SinkscopeError('bad_request', 'q', 'this run did not record the field');
      throw new SinkscopeError('bad_request', name, 'needs the field hidden, not recorded');
    },
  } as unknown as Recording;
}

const question = questionOf({ ...defaults, eps: 0.3 });
const frameOf = (recording = createRecording(), frameQuestion = question) =>
  recordedFrame(describe_, 'recording:r', 'recording:r', recording, frameQuestion);

function changedRecording(change: object, architecture: object = {}): Recording {
  const recording = createRecording();
  return {
    ...recording,
    architecture: { ...recording.architecture, ...architecture },
    conditions: { ...recording.conditions, ...change },
  } as Recording;
}

describe('the text about a recorded model', () => {
  it('names the token that counts as the first', async () => {
    const frame = await frameOf(changedRecording({ first: { token: 'a', id: 6, position: 1 } }));
    expect(selectedHead(frame, { layer: -1, head: -1 })).toEqual({ layer: 0, head: 0 });
    expect(findingWords(frame, { layer: 0, head: 0 })).toMatchSnapshot();
  });

  it('gives a token without a recorded id its position as its id', async () => {
    const recording = { ...createRecording(), tokens: [7] } as unknown as Recording;
    const { tokens } = await frameOf(recording);
    expect(tokens.map(({ id }) => id)).toEqual([7, 1, 2]);
  });

  it('omits the sizes of a model if only its maps were recorded', async () => {
    const sizesOf = async (sizes: object) => {
      const { D, K, U, V } = (await frameOf(changedRecording({}, sizes))).architecture;
      return [D, K, U, V];
    };
    expect(await sizesOf({ D: 4, K: 1, U: 1, V: 1 })).toEqual(Array(4).fill(undefined));
    expect(await sizesOf({ D: 64, K: 16, U: 12, V: 97 })).toEqual([64, 16, 12, 97]);
  });

  it('states the position of the first token in the stamp and the columns of the comparison', async () => {
    const frame = await frameOf(changedRecording({ first: { token: 'a', id: 6, position: 1 } }));
    expect(stampWords(frame)).toMatchSnapshot();
    const table = tableOf({ metrics: [] });
    const titles = (...frames: Frame[]) => metricsOf(frames, table).map(({ title }) => title);
    expect(titles(frame)).toContain('largest α₂');
    expect(titles(frame)).toContain('Sinkₖ, k ≠ 2');
    expect(titles(frame).join()).not.toContain('₁');
    // A title cannot name two positions, so the caption names the rows whose position differs.
    expect(titles(frame, await frameOf())).toContain('largest α₁');
    expect(titles(await frameOf())).toContain('Sinkₖ, k > 1');
  });

  it('names no first token if prompts begin with different ones', async () => {
    const frame = await frameOf(
      changedRecording({ first: { token: null, id: null, position: 0 } }),
    );
    expect(findingWords(frame, { layer: 0, head: 0 })).toMatchSnapshot();
    const prompts = { count: 1, kept: 1, T: 3 };
    const frameOfOne = await frameOf(
      changedRecording({ first: { token: null, id: null, position: 0 }, prompts }),
    );
    expect([frame.firstAt!.isCommon, frameOfOne.firstAt!.isCommon]).toEqual([false, true]);
  });

  it('names layers by the layer numbers of the model', async () => {
    const frame = await frameOf(changedRecording({}, { blocks: 4, layers: [3] }));
    expect(headName({ layer: 0, head: 1 }, frame)).toBe('L3H1');
    expect(findingWords(frame, { layer: 0, head: 1 })).toMatch(/^Head L3H1 gives /);
    expect(hiddenLayer(frame, 0)).toBe(4);
  });

  it('says EDITED if the recorded runs were edited', async () => {
    const frame = await frameOf(changedRecording({ class: 'EDITED' }));
    expect(stampWords(frame)).toMatch(/^EDITED · /);
  });

  it('says that the number of heads was not recorded', async () => {
    expect(headsWords(await frameOf(), NaN)).toMatchSnapshot();
  });
});

describe('the frame of a recording', () => {
  it('has the means over all prompts of the file, at the requested threshold', async () => {
    const frame = await frameOf();
    expect([frame.sequences, frame.eps, frame.T]).toEqual([4, 0.3, 3]);
    expect(Array.from(frame.tensors.sink_ratio!.data)).toEqual([0.75, 0, 0]);
    expect(Array.from(frame.spread.alpha!.slice(0, 1))[0]).toBeCloseTo(0.1);
    expect(frame.perPrompt.sink_ratio).toEqual([1, 0.5, 0.5, 1]);
    expect(frame.first).toEqual(['<s>']);
    expect(frame.tokens.map(({ special }) => special)).toEqual([true, false, false]);
    expect(stampWords(frame)).toMatchSnapshot();
  });

  it('states only what its file says about the model', async () => {
    const frame = await frameOf();
    expect(frame).toMatchObject({
      model: { id: 'recording:r', title: 'A model', source: 'recording', commit: 'r' },
      class: 'measured',
      architecture: { L: 1, H: 2, context: 3, mask_token: null, bias_key: null, gate: null },
      question: { n: 4, T: 3, eps: 0.3 },
      special: { automatic: ['<s>'], bos: '<s>', choices: [] },
      ids: [[5, 6, 7]],
      ...{ edits: [], labels: [], choices: [], dropped: 0, generated: 0, milliseconds: 0 },
    });
    expect(frame.model).not.toHaveProperty('sha256');
    expect(frame.tokens.map(({ id, start, end }) => [id, start, end])).toEqual([
      ...[
        [5, 0, 0],
        [6, 0, 0],
        [7, 0, 0],
      ],
    ]);
    const recording = createRecording();
    const conditions = recording.conditions as unknown as {
      class: string;
      model: { id: string; sha256: string };
    };
    conditions.class = 'COUNTERFACTUAL';
    conditions.model.sha256 = 'abc';
    conditions.model.id = 'x'.repeat(121);
    (recording.tensors as Map<string, unknown>).set('0.gate', {});
    const otherFrame = await frameOf(recording);
    expect(otherFrame).toMatchObject({
      class: 'counterfactual',
      model: { sha256: 'abc' },
      architecture: { gate: 'output_head' },
    });
    expect(otherFrame.title).toHaveLength(120);
    conditions.model.id = '';
    expect((await frameOf(recording)).title).toBe('r');
    conditions.model.id = 'مدل\u202e';
    expect((await frameOf(recording)).title).toBe('\u2068مدل\u2069');
    conditions.model.id = '';
    // A start token at another position, or of an unknown form, counts as a word of the text.
    const startTokensOf = async (...tokens: string[]) =>
      (await frameOf(createRecording(tokens))).first;
    expect([
      await startTokensOf('a', '<s>'),
      await startTokensOf('<s>', '<s>'),
      await startTokensOf('[s]'),
    ]).toEqual([[], ['<s>'], []]);
    const withoutLosses = createRecording();
    (withoutLosses.tensors as Map<string, unknown>).set('prompt.loss', {});
    (withoutLosses as unknown as { tensor: unknown }).tensor = async (name: string) =>
      name === 'prompt.loss' ? tensor([4], [1, 2, 3, 4]) : tensor([4, 2], [1, 1, 1, 1, 1, 1, 1, 1]);
    expect((await frameOf(withoutLosses)).perPrompt.loss_mean).toEqual([1, 2, 3, 4]);
  });

  it('has undefined raw weights if rows need not sum to 1, and uniform attention under its mask', async () => {
    const recording = createRecording();
    expect([...(await frameOf(recording)).tensors.sink_ratio_raw!.data]).toEqual([0.75, 0, 0]);
    const changeable = recording as unknown as {
      conditions: { model: { operation: string } };
      architecture: object;
    };
    changeable.conditions.model.operation = 'sink_logit';
    changeable.architecture = { ...recording.architecture, mask: { kind: 'bidirectional' } };
    const freeFrame = await frameOf(recording);
    expect([...freeFrame.tensors.sink_ratio_raw!.data]).toEqual([NaN, NaN, NaN]);
    expect([...freeFrame.tensors.alpha_uniform!.data].map((x) => x.toFixed(3))).toMatchSnapshot();
    const causalUniform = (await frameOf()).tensors.alpha_uniform!.data;
    // (1 + 1/2 + 1/3) / 3, (1/2 + 1/3) / 2 and 1/3.
    expect([...causalUniform].map((x) => x.toFixed(3))).toEqual(['0.611', '0.417', '0.333']);
    expect([...freeFrame.tensors.row_mass_summary!.shape]).toEqual([1, 2, 3]);
  });

  it('names its model and the edits during its runs', async () => {
    const recording = createRecording();
    (recording.conditions as unknown as { edits: object[] }).edits = [
      { kind: 'evict', label: 'window of 24 keys' },
    ];
    const frame = await frameOf(recording);
    expect([frame.title, frame.model.title]).toEqual(Array(2).fill('A model, window of 24 keys'));
    expect(stampWords(frame)).toMatchSnapshot();
  });

  it('uses the first threshold of the file if the requested one is missing', async () => {
    const frame = await frameOf(createRecording(), { ...question, eps: 0.7 });
    expect([frame.eps, frame.question.eps]).toEqual([0.1, 0.1]);
    expect(frame.tensors.sink_ratio!.data[0]).toBe(1);
  });

  it('shows undefined numbers for fields that sentences need and the file lacks', async () => {
    const recording = createRecording();
    (recording.tensors as Map<string, unknown>).clear();
    const frame = await frameOf(recording);
    expect(frame.tensors.alpha!.data.every(Number.isNaN)).toBe(true);
    expect(frame.tensors.alpha_uniform!.data[0]).toBeCloseTo((1 + 1 / 2 + 1 / 3) / 3);
  });

  it('omits means of positions if the stored prompt is shorter than the averaged ones', async () => {
    const frame = await frameOf(createRecording(['a', 'b']));
    expect(frame.T).toBe(2);
    expect(frame.spread.alpha).toBeUndefined();
  });

  it('is completed from its first prompt, and names the fields that are missing', async () => {
    const recording = createRecording();
    const frame = await frameOf(recording);
    const cachedRun = recordedRun('recording:r', recording, describe_);
    const request = { reads: ['kurtosis', 'effect'], headReads: ['att', 'q'] };
    const completedFrame = await completeFrame(describe_, frame, cachedRun, request, {
      headOf: () => ({ layer: 0, head: 1 }),
    });
    expect(completedFrame.head!.tensors.att!.shape).toEqual([3, 3]);
    expect('kurtosis' in completedFrame.tensors || 'q' in completedFrame.head!.tensors).toBe(false);
    const lackingFrame = { ...completedFrame, lacks: cachedRun.lacks! };
    const view = (reads: string[], headReads: string[] = []) =>
      ({ title: 'A view', reads, headReads }) as unknown as View;
    expect(lackWords(view(['alpha'], ['att']), lackingFrame)).toBe('');
    expect(lackWords(view([], ['q']), lackingFrame)).toMatchSnapshot();
    expect(lackWords(view(['kurtosis']), lackingFrame)).toMatchSnapshot();
    expect(lackWords(view(['effect']), lackingFrame)).toMatchSnapshot();
  });

  it('draws the pooled maps of a long text if they suffice', async () => {
    const recording = createRecording();
    const files = recording.tensors as Map<string, unknown>;
    files.delete('0.att');
    files.set('0.att_pooled', { dtype: 'U8', shape: [1, 2, 2, 2] });
    const pooled = async ({ layer }: { layer?: number } = {}) =>
      layer === undefined
        ? tensor([1, 2, 2, 2], Array<number>(8).fill(0.5))
        : tensor([2, 2], Array<number>(4).fill(0.5));
    const frame = await frameOf(recording);
    expect(frame.pooled).toBe(2);
    const cachedRun = recordedRun('r', { ...recording, pooled } as Recording, describe_);
    const request = { reads: ['att'], headReads: ['att'] };
    const completedFrame = await completeFrame(describe_, frame, cachedRun, request, {
      headOf: () => ({ layer: 0, head: 1 }),
    });
    expect(completedFrame.tensors.att!.shape).toEqual([1, 2, 2, 2]);
    expect(mapsOf(completedFrame)).toMatchObject({ side: 2, block: 2 });
    const view = { title: 'A view', reads: ['att'] } as unknown as View;
    expect([
      hasNumbersOf(view, completedFrame, describe_),
      lackWords(view, completedFrame),
    ]).toEqual([true, '']);
  });

  it('has a bias key if weight goes to one, but not for a sink logit', async () => {
    const recording = createRecording();
    (recording.tensors as Map<string, unknown>).set('0.att_bias', {
      dtype: 'F32',
      shape: [1, 2, 3],
    });
    expect((await frameOf(recording)).architecture.bias_key).toBe('head');
    (recording.conditions.model as { operation: string }).operation = 'sink_logit';
    expect((await frameOf(recording)).architecture.bias_key).toBeNull();
  });
});

describe('open recordings', () => {
  const signal = new AbortController().signal;
  function createRecordings(more: object = {}) {
    const closedRecordings: string[] = [];
    const openedSources: unknown[] = [];
    const reports: unknown[][] = [];
    const engine = {
      openRecording: async (
        source: unknown,
        { onProgress }: { onProgress: (p: object) => void },
      ) => {
        openedSources.push(source);
        onProgress({ done: 1, total: 4 });
        return {
          ...createRecording(),
          close: async () => void closedRecordings.push('closed'),
          ...more,
        };
      },
    };
    const watcher = { signal, onProgress: (...report: unknown[]) => void reports.push(report) };
    return {
      recordings: new Recordings(engine as never),
      ...{ watcher, closedRecordings, openedSources, reports },
    };
  }
  const address = 'recording:https://a.example/x.safetensors';

  it('are opened once per address, listed for selection, and closed when no room shows them', async () => {
    const { recordings, watcher, closedRecordings, openedSources, reports } = createRecordings();
    expect([recordings.canOpen(address), recordings.choices]).toEqual([false, []]);
    recordings.admit(address);
    expect(recordings.choices).toEqual([{ id: address, title: 'x', source: 'recording' }]);
    const [firstRecording, secondRecording] = await Promise.all([
      recordings.get(address, watcher),
      recordings.get(address, watcher),
    ]);
    expect([
      firstRecording === secondRecording,
      openedSources.length,
      String(openedSources[0]),
    ]).toEqual([true, 1, 'https://a.example/x.safetensors']);
    expect(reports).toEqual([['Loading x', 1, 4, { done: 1, total: 4 }]]);
    expect(recordings.choices[0]!.title).toBe('A model');
    await recordings.release(new Set([address]));
    expect(closedRecordings).toEqual([]);
    await recordings.release(new Set());
    expect(closedRecordings).toEqual(['closed']);
    await recordings.get(address, watcher);
    expect(openedSources).toHaveLength(2);
    recordings.forget(address);
    expect(recordings.canOpen(address)).toBe(false);
  });

  it('of a disk need their file, and request it again after a failure', async () => {
    const { recordings, watcher, openedSources } = createRecordings();
    const disk = 'recording:disk:0123456789abcdef/mine';
    await expect(recordings.get(disk, watcher)).rejects.toThrowErrorMatchingSnapshot();
    const file = new Blob(['abc']);
    recordings.admit(disk, file);
    recordings.admit(disk);
    await recordings.get(disk, watcher);
    expect(openedSources).toEqual([file]);
    expect([...(await recordings.bytes(disk))]).toEqual([97, 98, 99]);
    let tries = 0;
    const engine = { openRecording: async () => (tries++, Promise.reject(new Error('broken'))) };
    const failingRecordings = new Recordings(engine as never);
    for (let i = 0; i < 2; i++)
      await expect(failingRecordings.get(address, watcher)).rejects.toThrow('broken');
    expect(tries).toBe(2);
  });

  it('can be opened again while the previous one closes; its failure does not affect others', async () => {
    const openings: { resolve: (recording: object) => void; reject: (error: Error) => void }[] = [];
    const openRecording = () =>
      new Promise((resolve, reject) => void openings.push({ resolve, reject }));
    const { watcher } = createRecordings();
    const recordings = new Recordings({ openRecording } as never);
    const firstOpening = recordings.get(address, watcher);
    const releasing = recordings.release(new Set());
    const secondOpening = recordings.get(address, watcher);
    openings[0]!.reject(new Error('gone'));
    await expect(firstOpening).rejects.toThrow('gone');
    await releasing;
    const thirdOpening = recordings.get(address, watcher);
    openings[1]!.resolve(createRecording());
    expect(await thirdOpening).toBe(await secondOpening);
    expect(openings).toHaveLength(2);
  });

  it('state their size without opening the file', async () => {
    const { recordings } = createRecordings();
    const requests: unknown[][] = [];
    const serve = (answer: () => Response) =>
      vi.stubGlobal('fetch', async (url: URL, { method } = { method: 'GET' }) => {
        requests.push([url.href, method]);
        return answer();
      });
    serve(() => new Response('', { headers: { 'content-length': '7' } }));
    expect(await recordings.size(address, signal)).toBe(7);
    serve(() => new Response(''));
    expect(await recordings.size(address, signal)).toBeUndefined();
    serve(() => new Response('', { status: 404, headers: { 'content-length': '7' } }));
    expect(await recordings.size(address, signal)).toBeUndefined();
    await expect(recordings.bytes(address)).rejects.toThrowErrorMatchingSnapshot();
    serve(() => {
      throw new TypeError('Failed to fetch');
    });
    await expect(recordings.bytes(address)).rejects.toThrowErrorMatchingSnapshot();
    serve(() => new Response('ab'));
    expect([...(await recordings.bytes(address))]).toEqual([97, 98]);
    expect(requests[0]).toEqual(['https://a.example/x.safetensors', 'HEAD']);
    serve(() => {
      throw new Error('no network');
    });
    expect(await recordings.size(address, signal)).toBeUndefined();
    await expect(recordings.size(address, AbortSignal.abort())).rejects.toThrow();
    vi.unstubAllGlobals();
  });
});
