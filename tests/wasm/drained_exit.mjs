/**
 * Delays the end of a test process until its results are written: with --test-force-exit, Node.js (24.19) ends a
 * process whose last results are still in a buffer, and up to a tenth of the tests of a file is then missing in the report.
 */
import { isMainThread } from 'node:worker_threads';

const WRITE_MS = 200;

if (isMainThread) {
  const exit = process.exit.bind(process);
  process.exit = (code) => void setTimeout(() => exit(code), WRITE_MS);
}
