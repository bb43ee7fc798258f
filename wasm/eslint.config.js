/** What tests/style asks of the JavaScript of the package and of the tests. */
import js from '@eslint/js';
import globals from 'globals';

/** In a comment `any` is a type that ends all checking; eslint itself reads no types. */
const noAny = {
  meta: { messages: { any: 'say what it is, or unknown: `any` ends all checking' } },
  create: (context) => ({
    Program() {
      for (const comment of context.sourceCode.getAllComments()) {
        const isType = /@(type|param|returns|typedef|template|property)\b/.test(comment.value);
        if (isType && /\{[^}]*\bany\b/.test(comment.value))
          context.report({ loc: comment.loc, messageId: 'any' });
      }
    },
  }),
};

export default [
  { ignores: ['**/node_modules/', '.build/', 'models/', 'tests/golden/'] },
  js.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'no-unused-vars': ['error', { varsIgnorePattern: '^_', argsIgnorePattern: '^_' }],
      // A character of control is what is looked for there.
      'no-control-regex': 'off',
    },
  },
  {
    files: ['wasm/**/*.js'],
    plugins: { own: { rules: { 'no-any': noAny } } },
    rules: { 'own/no-any': 'error' },
  },
];
