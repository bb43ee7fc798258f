// Loaded with --import before a test of the package: one module is read from another file.
//
//     MUTANT=wasm/study/measure.js MUTANT_TEXT=FILE NODE_OPTIONS='--import ./tests/mutate/instead.mjs'
//
// NODE_OPTIONS reaches the workers and the command line that a test starts.
import { register } from 'node:module';

register('./instead_hooks.mjs', import.meta.url);
