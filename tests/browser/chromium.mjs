/** Exports Chromium, for tests that do not need the built page. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const require = createRequire(join(root, 'web/package.json'));
export const { chromium } = require('playwright-core');

/** Paths of browsers. The first is Chromium without windows, which takes 60% of the processor time of the second. */
const BROWSER_PATHS = ['chromium-headless-shell', 'chromium', 'google-chrome'].map(
  (name) => `/usr/bin/${name}`,
);
export const CHROMIUM = {
  executablePath: process.env.CHROMIUM ?? BROWSER_PATHS.find(existsSync),
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--host-resolver-rules=MAP insecure.test 127.0.0.1',
  ],
  // Where the locale is C, Chromium cannot name a file in Arabic.
  env: { ...process.env, LC_ALL: 'C.UTF-8' },
};
