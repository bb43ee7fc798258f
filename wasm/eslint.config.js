/** ESLint rules for the JavaScript of the package and the tests, and for the page's TypeScript. */
import js from '@eslint/js';
import globals from 'globals';
import typescript from 'typescript-eslint';

/** A leading underscore marks a value as unused. */
const unused = ['error', { varsIgnorePattern: '^_', argsIgnorePattern: '^_' }];

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
      'no-unused-vars': unused,
      // Some expressions search for control characters on purpose.
      'no-control-regex': 'off',
      'no-restricted-syntax': [
        'error',
        {
          selector:
            "CallExpression[callee.property.name='waitForFunction'] > [async=true].arguments",
          message:
            'waitForFunction takes a promise for true: use until() of tests/browser/stage.mjs',
        },
      ],
    },
  },
  ...typescript.configs.recommended.map((config) => ({ ...config, files: ['**/*.ts'] })),
  {
    files: ['**/*.ts'],
    rules: { '@typescript-eslint/no-unused-vars': unused },
  },
  {
    // Rules that need types apply where files have a project.
    files: ['web/{src,ship,test}/**/*.ts', 'wasm/**/*.ts'],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
    },
  },
  {
    files: ['{wasm,web/src,web/ship}/**/*.ts'],
    rules: { 'max-lines-per-function': ['error', 80] },
  },
];
