export { createEngine } from './client.js';
export { SinkscopeError } from './errors.js';
export { tokenizerOfGguf } from './gguf_tokenizer.js';
export { openTokenizer } from './tokenizer.js';
export { tokenizerOfVocabulary } from './vocabulary.js';
