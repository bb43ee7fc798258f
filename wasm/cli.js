#!/usr/bin/env node
import { runCommand } from './command/command.ts';

await runCommand(process.argv.slice(2));
