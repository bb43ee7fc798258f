/** Tests the boundary between JavaScript and the core, by a fake binary: arguments and errors. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { check, checkList, checkOptions, urlOf } from '../../wasm/abi/arguments.ts';
import { checkPlan } from '../../wasm/loading/plan.ts';
import {
  SinkscopeError,
  expect,
  expectInteger,
  indexOfName,
  packError,
  argumentError,
  unpackError,
} from '../../wasm/abi/errors.ts';
import { createSharedMemory } from '../../wasm/abi/memory.ts';
import { Module, copyView } from '../../wasm/abi/module.ts';
import { errorOf } from './helper.mjs';

test('each kind of argument accepts its values, and a rejected value is reported with the kind', () => {
  const call = () => {};
  const list = { length: 0 };
  const blob = { arrayBuffer: call, stream: call };
  const signal = { throwIfAborted: call, addEventListener: call };
  for (const [kind, name, good, bad] of [
    ['text', 'a string', ['', 'x'], [1, null]],
    ['number', 'a number', [0, -1.5, Infinity], [NaN, '1']],
    ['count', 'an integer from 0 to 281474976710656', [0, 2 ** 48], [-1, 0.5, 2 ** 48 + 1, '1']],
    ['flag', 'true or false', [true, false], [0, null]],
    ['flag or list', 'true, false or a list', [true, false, [], list], [0, null, 'xy', {}]],
    ['call', 'a function', [call], [{}, null]],
    ['object', 'an object', [{}, []], [null, call, 1]],
    ['list', 'a list', [[], list, new Uint8Array(2)], ['xy', {}, { length: 0.5 }, null, call]],
    ['blob', 'a Blob', [new Blob([]), blob], [{ stream: call }, { arrayBuffer: call }, null]],
    [
      'signal',
      'an AbortSignal',
      [new AbortController().signal, signal],
      [{ throwIfAborted: call }, { addEventListener: call }, {}],
    ],
    ...Object.entries({
      model: 'run',
      training: 'read',
      recording: 'pooled',
      tokenizer: 'encode',
    }).map(([kind, method]) => {
      const like = { [method]: call };
      return [kind, `a ${kind}`, [like], [{}, Object.assign(() => {}, like)]];
    }),
    ['abacus', 'abacus', [], [{}]],
  ]) {
    for (const value of good)
      assert.equal(check(value, kind, 'it'), undefined, `${kind}: ${value}`);
    for (const value of bad) {
      const [code, where, text] = errorOf(() => check(value, kind, 'it'));
      assert.deepEqual([code, where], ['argument', 'it'], kind);
      assert.ok(text.startsWith(`expected ${name}, got `), text);
    }
  }
});

test('options may be omitted, and each item of a list is checked', (t) => {
  const kinds = { a: 'text', b: 'flag' };
  for (const options of [{}, { a: undefined }, { a: 'x', b: true, c: 1 }])
    checkOptions(options, kinds);
  t.assert.snapshot(errorOf(() => checkOptions({ b: null }, kinds)));
  assert.equal(errorOf(() => checkOptions(1, kinds))[1], 'options');
  assert.equal(errorOf(() => checkOptions(1, kinds, 'own'))[1], 'own');
  checkList([], 'text', 'all');
  checkList(['a', 'b'], 'text', 'all');
  assert.deepEqual(
    errorOf(() => checkList(['a', 1], 'text', 'all')),
    ['argument', 'all[1]', 'expected a string, got 1'],
  );
  // A missing entry of a list is checked like an entry that is there.
  assert.equal(errorOf(() => checkList({ length: 1 }, 'text', 'all'))[1], 'all[0]');
  assert.equal(errorOf(() => checkList('a', 'text', 'all'))[1], 'all');
  const plan = { id: 'x', files: { weights: [{}] } };
  assert.equal(checkPlan(plan), undefined);
  for (const [spoilt, where] of [
    [null, 'plan'],
    [{ ...plan, id: 1 }, 'plan.id'],
    [{ id: 'x' }, 'plan.files'],
    [{ id: 'x', files: {} }, 'plan.files.weights'],
    [{ id: 'x', files: { weights: [1] } }, 'plan.files.weights[0]'],
  ])
    assert.deepEqual(errorOf(() => checkPlan(spoilt)).slice(0, 2), ['argument', where]);
  assert.equal(urlOf('b', 'https://a/x', 'it').href, 'https://a/b');
  assert.equal(urlOf(new URL('https://a/x'), undefined, 'it').href, 'https://a/x');
  for (const value of ['b', 5]) t.assert.snapshot(errorOf(() => urlOf(value, undefined, 'it')));
});

test('an error has place and message, shows the value, and keeps its members when it is posted', () => {
  const error = new SinkscopeError('read', 'a file', 'expected bytes');
  assert.deepEqual([error.name, error.message], ['SinkscopeError', 'a file: expected bytes']);
  assert.equal(new SinkscopeError('read', '', 'expected bytes').message, 'expected bytes');
  for (const [value, valueText] of [
    ['a"b', '"a\\"b"'],
    [() => {}, 'a function'],
    [null, 'null'],
    [undefined, 'undefined'],
    [1.5, '1.5'],
    [Symbol('s'), 'Symbol(s)'],
    [[1, 2], 'a list of 2'],
    [{}, 'an object'],
  ])
    assert.equal(argumentError('x', 'y', value).text, `expected y, got ${valueText}`);
  assert.deepEqual(packError(error), { code: 'read', where: 'a file', text: 'expected bytes' });
  assert.deepEqual(packError(new TypeError('x')), {
    code: 'internal',
    where: '',
    text: 'TypeError: x',
  });
  const unpackedError = unpackError(packError(error));
  assert.ok(unpackedError instanceof SinkscopeError);
  assert.equal(unpackedError.message, error.message);
  for (const other of [
    null,
    undefined,
    'text',
    {},
    { code: 1 },
    { code: 1, where: 1 },
    { where: 1, text: 1 },
  ])
    assert.equal(unpackError(other), undefined);
  expect(true, 'x', 'y', 1);
  for (const value of [3, 4, 5]) expectInteger(value, 3, 5, 'n');
  for (const value of [2, 6, 3.5, '4', NaN])
    assert.deepEqual(
      errorOf(() => expectInteger(value, 3, 5, 'n')),
      [
        'argument',
        'n',
        `expected an integer from 3 to 5, got ${typeof value === 'string' ? '"4"' : value}`,
      ],
    );
  const table = [{ name: 'a' }, { name: 'b' }];
  assert.deepEqual([indexOfName(table, 'a', 'row'), indexOfName(table, 'b', 'row')], [0, 1]);
  assert.deepEqual(
    errorOf(() => indexOfName(table, 'c', 'row')),
    ['argument', 'row', 'expected one of a, b, got "c"'],
  );
});

test('a request for shared memory that fails is halved, down to twice the minimum of the binary', (t) => {
  const { Memory } = WebAssembly;
  t.after(() => Object.assign(WebAssembly, { Memory }));
  const withMost = (pagesMax) => {
    const requestedPages = [];
    WebAssembly.Memory = class {
      constructor({ initial, maximum, shared }) {
        assert.deepEqual([initial, shared], [256, true]);
        requestedPages.push(maximum);
        if (maximum > pagesMax) throw new RangeError('no room');
      }
    };
    return { requestedPages, error: errorOf(() => createSharedMemory()) };
  };
  assert.deepEqual(withMost(65536), { requestedPages: [65536], error: 'nothing' });
  assert.deepEqual(withMost(20000).requestedPages, [65536, 32768, 16384]);
  const halves = [65536, 32768, 16384, 8192, 4096, 2048, 1024, 512];
  assert.deepEqual(withMost(512), { requestedPages: halves, error: 'nothing' });
  assert.deepEqual(withMost(511), {
    requestedPages: halves,
    error: ['no_memory', 'memory', 'RangeError: no room'],
  });
});

/** Returns a fake binary with its view at 64 and its last failure at 1024; allocations begin at 4096. */
function binary(functions = {}) {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const words = new Uint32Array(memory.buffer);
  const log = [];
  let reserved = 0;
  const exports = {
    memory,
    ss_wasm_reserve: (bytes) => (log.push(['reserve', bytes]), reserved++ ? 4096 : 64),
    ss_wasm_release: (address) => log.push(['release', address]),
    ss_wasm_error: () => 1024,
    ss_wasm_fail: () => 1,
    ss_wasm_none: () => 0,
    ss_wasm_far: () => -4096,
    ss_wasm_trap() {
      throw new Error('unreachable');
    },
    ...functions,
  };
  const module = new Module(exports, /** @type {any} */ ('binary'));
  const bytesAt = (address) => new Uint8Array(memory.buffer, address);
  const showView = (name, ...view) => {
    exports[`ss_wasm_${name}`] = (...args) => {
      assert.equal(args.at(-1), 64);
      log.push([name, ...args.slice(0, -1)]);
      words.set(view, 16);
      return 0;
    };
  };
  return { module, memory, log, words, bytesAt, showView };
}

test('a failure of the core has its code, place and message', () => {
  const { module, words, bytesAt, log } = binary();
  assert.deepEqual(log, [['reserve', 48]]);
  words[256] = 3;
  bytesAt(1028).set(Buffer.from('a tensor\0rest'));
  bytesAt(1124).set(Buffer.from('\ufeffexpected it\0rest'));
  const where = ['a tensor', '\ufeffexpected it'];
  assert.deepEqual(
    errorOf(() => module.check('fail')),
    ['status 3', ...where],
  );
  module.codes = { 3: 'bad_tensor' };
  for (const call of [
    () => module.check('fail'),
    () => module.handle('none'),
    () => module.json('fail'),
  ])
    assert.deepEqual(errorOf(call), ['bad_tensor', ...where]);
  // Texts that fill their buffer have no terminator.
  bytesAt(1028).fill(97, 0, 96);
  bytesAt(1124).fill(98, 0, 768);
  bytesAt(1892).fill(99, 0, 9);
  assert.deepEqual(errorOf(() => module.check('fail')).slice(1), ['a'.repeat(96), 'b'.repeat(768)]);
  for (const start of [1028, 1124]) bytesAt(start)[0] = 0;
  assert.deepEqual(errorOf(() => module.check('fail')).slice(1), ['', '']);
  module.check('none');
  // Addresses above 2 GiB arrive as negative numbers.
  assert.equal(module.handle('far'), 2 ** 32 - 4096);
});

test('after a trap no function is called, and freeing a block does nothing', () => {
  const { module, log } = binary();
  const trap = ['lost', 'trap', errorOf(() => module.call('trap'))[2]];
  assert.deepEqual(
    errorOf(() => module.call('trap')),
    trap,
  );
  assert.deepEqual(
    errorOf(() => module.call('none')),
    trap,
  );
  module.release(5);
  assert.equal(log.length, 1);
});

test('a block has room for its values, is reused from its start, and is freed', () => {
  const { module, log, bytesAt } = binary();
  const content = new Uint16Array([1, 2, 3]).subarray(1);
  assert.equal(
    module.lend(content, (address) => (log.push(address), bytesAt(address)[2])),
    3,
  );
  assert.throws(() =>
    module.lend(new Uint8Array(), () => {
      throw new Error('x');
    }),
  );
  assert.deepEqual(log.slice(1), [
    ['reserve', 4],
    4096,
    ['release', 4096],
    ['reserve', 1],
    ['release', 4096],
  ]);
  assert.equal(module.size, 65536);
  const fullBinary = binary({
    ss_wasm_reserve: (bytes) => (bytes === 48 ? 64 : bytes === 9 ? -64 : 0),
  });
  assert.equal(fullBinary.module.reserve(9), 2 ** 32 - 64);
  for (const bytes of [5, 2 ** 32 - 1, 2 ** 32])
    assert.deepEqual(
      errorOf(() => fullBinary.module.reserve(bytes)),
      ['no_memory', 'memory', `expected room for ${bytes} more bytes; 65536 are in use`],
    );
  assert.equal(errorOf(() => binary({ ss_wasm_reserve: () => 0 }))[0], 'no_memory');
});

test('views are read as texts, bytes and tensors', () => {
  const { module, showView, bytesAt, log, memory } = binary();
  bytesAt(8192).set(Buffer.from('{"a":1}'));
  showView('text', 8192, 2, 1, 7);
  assert.deepEqual(module.json('text', 5), { a: 1 });
  assert.deepEqual(log.at(-1), ['text', 5]);
  assert.deepEqual([...module.bytesOf('text')], [...Buffer.from('{"a":1}')]);
  const file = module.file('text', 6);
  bytesAt(8192)[0] = 0;
  assert.equal(file[0], 123);
  showView('numbers', 8192, 0, 1, 7);
  assert.deepEqual(
    errorOf(() => module.json('numbers')),
    ['abi', 'numbers', 'expected text'],
  );
  new Float32Array(memory.buffer, 8192, 24).set(Array.from({ length: 24 }, (_, i) => i));
  showView('tensor', 8192, 0, 2, 2, 3, 0, 0, 3, 1);
  const tensor = module.tensor('tensor', 7);
  assert.deepEqual(tensor, { shape: [2, 3], data: Float32Array.of(0, 1, 2, 3, 4, 5) });
});

test('a view with strides is copied as a dense tensor', () => {
  const numbers = Float32Array.from({ length: 24 }, (_, i) => i);
  const copy = (type, rank, shape, strides, address = 0) => {
    const words = Uint32Array.of(address, type, rank, ...shape, 0, 0, 0, 0, 0, 0, 0, 0);
    words.set(strides, 7);
    return copyView(numbers.buffer, words);
  };
  for (const [shape, strides, address, data] of [
    [[], [], 8, [2]],
    [[3], [1], 4, [1, 2, 3]],
    [[3], [2], 4, [1, 3, 5]],
    [[1], [9], 4, [1]],
    [[0], [1], 0, []],
    [[2, 0], [0, 2], 0, []],
    [[2, 3], [3, 1], 0, [0, 1, 2, 3, 4, 5]],
    [[3, 2], [2, 1], 0, [0, 1, 2, 3, 4, 5]],
    [[2, 3], [1, 4], 0, [0, 4, 8, 1, 5, 9]],
    [[2, 2], [0, 1], 8, [2, 3, 2, 3]],
    [[2, 1, 2], [12, 4, 1], 4, [1, 2, 13, 14]],
    [[1, 2, 2, 2], [24, 12, 4, 2], 0, [0, 2, 4, 6, 12, 14, 16, 18]],
  ])
    assert.deepEqual(copy(0, shape.length, shape, strides, address), {
      shape,
      data: Float32Array.from(data),
    });
  const integers = copy(1, 1, [2], [1], 0).data;
  assert.ok(integers instanceof Int32Array);
  assert.deepEqual([...integers], [0, new Int32Array(numbers.buffer)[1]]);
});
