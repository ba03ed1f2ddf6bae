// Bundles src/**/*.test.ts and runs the tests with Node's test runner: `npm test`.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as esbuild from "esbuild";

const found = (await readdir("src", { recursive: true }))
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => join("src", name));
const out = await mkdtemp(join(tmpdir(), "seemalloc-web-"));
await esbuild.build({
  entryPoints: found,
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: out,
  outExtension: { ".js": ".mjs" },
});
const tests = (await readdir(out, { recursive: true }))
  .filter((name) => name.endsWith(".mjs"))
  .map((name) => join(out, name));
const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=tap", ...tests], { stdio: "inherit" });
await rm(out, { recursive: true });
process.exit(status ?? 1);
