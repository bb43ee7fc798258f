#!/usr/bin/env node
// Imported dynamically, so that a Node.js that cannot load these modules, or a missing package, is reported in one sentence.
const { runCommand } = await import('./command/command.ts').catch((error) => {
  const isTooOld =
    error.code === 'ERR_UNKNOWN_FILE_EXTENSION' || parseInt(process.versions.node) < 22;
  if (!isTooOld && error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  console.error(
    isTooOld
      ? `sinkscope: expected Node.js 22.18 or newer, found ${process.version}; in a checkout, wasm/cli runs the one of tests/setup`
      : `sinkscope: ${error.message}; in a checkout, web/serve --build-only installs and builds what is missing`,
  );
  process.exit(1);
});

await runCommand(process.argv.slice(2));
