/** Runs commands, whose words come as JSON, and prints their results: a Node.js for each would take half of the time to start. */
import { runOk } from '../wasm/helper.mjs';

const results = [];
for (const words of JSON.parse(process.argv[2]))
  results.push(JSON.parse((await runOk(...words, '--json')).stdout));
process.stdout.write(JSON.stringify(results));
