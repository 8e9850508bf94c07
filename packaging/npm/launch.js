#!/usr/bin/env node
// Starts the program that the package of this platform brings. Nothing is downloaded, and there is no install script.
"use strict";

const { spawnSync } = require("node:child_process");

const name = `@backcast/${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "backcast.exe" : "backcast";

let program;
try {
  program = require.resolve(`${name}/${file}`);
} catch {
  console.error(
    `backcast: no build for ${process.platform}-${process.arch} is installed.\n` +
      `If the platform is supported, npm left out the optional package ${name}: install again without --omit=optional.\n` +
      "Otherwise build from source: cargo install backcast --all-features",
  );
  process.exit(2);
}

const { status, signal, error } = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (error) {
  console.error(`backcast: ${program}: ${error.message}`);
  process.exit(2);
}
if (signal) {
  // End the way the program ended, so that a shell sees the signal.
  process.kill(process.pid, signal);
}
process.exit(status ?? 2);
