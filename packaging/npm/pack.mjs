// Packs the npm packages of a release.
//
//   node packaging/npm/pack.mjs main OUT                      the package `backcast`, which starts the right program
//   node packaging/npm/pack.mjs linux-x64 PROGRAM OUT         the package of one platform, with the program
//
// Prints the path of the tarball. Version, description and license are those of Cargo.toml. No package has an install
// script: the platform packages are optional dependencies with `os` and `cpu`, so npm installs the one that fits.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");

// Linux packages hold the static build, so one package serves glibc and musl systems.
const platforms = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64", "win32-x64"];

/** Returns what Cargo says about the root package. */
function readPackage() {
  const options = { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 };
  const metadata = JSON.parse(
    execFileSync("cargo", ["metadata", "--no-deps", "--format-version=1", "--offline"], options),
  );
  return metadata.packages.find((entry) => entry.name === "backcast");
}

/** Writes a package's folder and packs it. Returns the path of the tarball. */
function pack(manifest, files, out) {
  const { version, description, license, repository } = readPackage();
  const folder = mkdtempSync(join(tmpdir(), "backcast-npm-"));
  for (const [from, name, mode] of files) {
    copyFileSync(from, join(folder, name));
    chmodSync(join(folder, name), mode);
  }
  const whole = { ...manifest, version, description, license, repository: { type: "git", url: `git+${repository}.git` } };
  if (manifest.optionalDependencies) {
    whole.optionalDependencies = Object.fromEntries(platforms.map((platform) => [`@backcast/${platform}`, version]));
  }
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(whole, null, 2)}\n`);
  mkdirSync(out, { recursive: true });
  const options = { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", resolve(out)], options),
  );
  return join(resolve(out), packed.filename);
}

const documents = [
  [join(root, "README.md"), "README.md", 0o644],
  [join(root, "LICENSE-MIT"), "LICENSE-MIT", 0o644],
  [join(root, "LICENSE-APACHE"), "LICENSE-APACHE", 0o644],
];
const [which, ...rest] = process.argv.slice(2);
if (which === "main" && rest.length === 1) {
  const manifest = { name: "backcast", bin: { backcast: "launch.js" }, engines: { node: ">=18" }, optionalDependencies: {} };
  console.log(pack(manifest, [[join(here, "launch.js"), "launch.js", 0o755], ...documents], rest[0]));
} else if (platforms.includes(which) && rest.length === 2) {
  const [os, cpu] = which.split("-");
  const file = os === "win32" ? "backcast.exe" : "backcast";
  const manifest = { name: `@backcast/${which}`, os: [os], cpu: [cpu], preferUnplugged: true };
  console.log(pack(manifest, [[rest[0], file, 0o755], ...documents.slice(1)], rest[1]));
} else {
  console.error(`usage: pack.mjs main OUT | pack.mjs ${platforms.join("|")} PROGRAM OUT`);
  process.exit(2);
}
