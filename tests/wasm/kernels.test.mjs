// Runs the checks of tests/native/test_kernels.c on the SIMD kernels of the binaries: each has the order of its contract,
// and with it the bits of the native build.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { root } from './helper.mjs';

const cwd = fileURLToPath(root);
const program = '.build/kernels/test_kernels.cjs';
const sources = ['kernels_ref', 'kernels_simd', 'fixed', 'fixed_simd', 'pack', 'unpack'];
const options = [
  ...['-std=c11', '-O3', '-msimd128', '-ffp-contract=off', '-fno-math-errno', '-Icore', '-Itests'],
  ...['-sEXIT_RUNTIME=1', '-sENVIRONMENT=node', '-sSINGLE_FILE=1', '-sALLOW_MEMORY_GROWTH=1'],
  'tests/native/test_kernels.c',
  ...sources.map((name) => `core/math/${name}.c`),
];
// Debian's emcc looks for its JavaScript libraries in /usr/share/nodejs only on request.
const env = { ...process.env, NODE_PATH: process.env.NODE_PATH ?? '/usr/share/nodejs' };

test('SIMD kernels have the order of their contract', () => {
  mkdirSync(new URL('.build/kernels/', root), { recursive: true });
  execFileSync('emcc', [...options, '-o', program], { cwd, env, stdio: 'inherit' });
  const printed = execFileSync(process.execPath, [program], { cwd, encoding: 'utf8' });
  assert.match(printed, /[1-9]\d* passed, 0 failed\s*$/);
});
