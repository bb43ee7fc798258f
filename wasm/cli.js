#!/usr/bin/env node
// Imported dynamically, so that a Node.js that cannot load these modules is reported in one sentence.
const { runCommand } = await import('./command/command.ts').catch((error) => {
  const isTooOld =
    error.code === 'ERR_UNKNOWN_FILE_EXTENSION' || parseInt(process.versions.node) < 22;
  if (!isTooOld) throw error;
  const sentence = `expected Node.js 22.18 or newer, found ${process.version}`;
  console.error(`sinkscope: ${sentence}; in a checkout, wasm/cli runs the one of tests/setup`);
  process.exit(1);
});

await runCommand(process.argv.slice(2));
