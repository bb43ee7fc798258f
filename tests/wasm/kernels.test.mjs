// Compares the bits of the kernels in native code and in wasm, by builds of tests/native/kernel_bits.c.
import { test, before } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { root } from './helper.mjs';

const cwd = fileURLToPath(root);
const folder = '.build/kernels/';
const tool = '.build/native/kernel_bits';
const sources = [
  'tests/native/kernel_bits.c',
  'core/math/kernels_ref.c',
  'core/math/kernels_simd.c',
  'core/math/fixed.c',
  'core/math/fixed_simd.c',
];
const compilerOptions = ['-std=c11', '-ffp-contract=off', '-fno-math-errno', '-Icore', ...sources];
const library = ['--no-entry', '-sSTANDALONE_WASM', '-sEXPORTED_FUNCTIONS=_ss_bits,_ss_bits_count'];

// Debian's emcc looks for its JavaScript libraries in /usr/share/nodejs only on request.
const env = { ...process.env, NODE_PATH: process.env.NODE_PATH ?? '/usr/share/nodejs' };
const build = (command, ...options) =>
  execFileSync(command, [...compilerOptions, ...options], { cwd, env, stdio: 'inherit' });

const printedBy = (program) => execFileSync(program, { cwd }).toString().trim().split('\n');

const hex = (number) => (number >>> 0).toString(16).padStart(8, '0');

/**
 * Returns the hashes that a binary computes. Set 1 is the textbook implementation, set 0 the kernels that the binary
 * uses.
 * @param {string} file
 */
async function hashes(file, set = 0) {
  const { instance } = await WebAssembly.instantiate(readFileSync(new URL(file, root)));
  const { _initialize, ss_bits, ss_bits_count } = instance.exports;
  _initialize?.();
  const hashOfFormat = (_, i) => hex(ss_bits(i, 2 * set + 1)) + hex(ss_bits(i, 2 * set));
  return Array.from({ length: ss_bits_count() }, hashOfFormat);
}

/** @param {string[]} lines */
const withNames = (list, lines) => list.map((hash, i) => `${lines[i]?.split(' ')[0]} ${hash}`);

const simd = `${folder}simd.wasm`;

before(() => {
  mkdirSync(new URL(folder, root), { recursive: true });
  build('emcc', '-O3', '-msimd128', ...library, '-o', simd);
});

test('SIMD kernels have the bits of the reference implementation', async () => {
  const textbook = await hashes(simd, 1);
  assert.ok(textbook.length > 0);
  assert.equal(new Set(textbook).size, textbook.length);
  assert.deepEqual(await hashes(simd), textbook);
});

const reason = existsSync(new URL(tool, root)) ? false : `${tool} has not been built`;
test('kernels have the same bits in wasm and natively', { skip: reason }, async () => {
  const lines = printedBy(tool);
  assert.deepEqual(withNames(await hashes(simd), lines), lines);
});

test('an optimizing compiler does not change the bits', { skip: reason }, () => {
  build('cc', '-O0', '-o', `${folder}plain`, '-lm');
  assert.deepEqual(printedBy(`${folder}plain`), printedBy(tool));
});
