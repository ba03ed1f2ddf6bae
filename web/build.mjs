// Bundles the page into ../tool/web/dist, which is embedded in the Go tool: `npm ci && npm run build`.
import { cp, mkdir, rm } from "node:fs/promises";
import * as esbuild from "esbuild";

// `node build.mjs DIR` writes to another directory, for comparison.
const out = process.argv[2] ? process.argv[2] + "/" : new URL("../tool/web/dist/", import.meta.url).pathname;
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await esbuild.build({
  entryPoints: { page: "src/main.tsx", worker: "src/worker.ts" },
  bundle: true,
  minify: true,
  legalComments: "eof", // licences of the bundled packages
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: out,
});
await cp("src/index.html", out + "index.html");
