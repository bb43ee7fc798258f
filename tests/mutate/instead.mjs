/**
 * Loaded with --import before a test of the package: replaces the text of one module by that of another file.
 *
 *     MUTANT=wasm/study/measure.ts MUTANT_TEXT=FILE NODE_OPTIONS='--import ./tests/mutate/instead.mjs'
 *
 * Workers and command lines that a test starts inherit NODE_OPTIONS.
 */
import { register } from 'node:module';

register('./instead_hooks.mjs', import.meta.url);
