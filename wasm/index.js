export { createEngine } from './client.js';
export { SinkscopeError } from './errors.js';
export { openTokenizer } from './tokenizer.js';
