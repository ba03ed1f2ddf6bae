// The graph, the source, pprof's own pages and changes, in a real Chromium: their figures are those of the reference
// pprof and of `seemalloc top` for the same profiles.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  bytes,
  checkAccessibility,
  closePage,
  diff,
  eventually,
  openPage,
  pprof,
  root,
  saveFile,
  serve,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  tempDir,
  top,
} from "./harness.mjs";
import { takeLeakProfiles } from "./leakprofiles.mjs";

const source = join(root, "demo/leak.cc");
let first, second, files;

before(
  async () => {
    ({ first, second } = await takeLeakProfiles());
    files = await serve(first, second);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

/** Nodes and edges of `pprof -dot`, by name. */
function pprofEdges(file) {
  const text = pprof(
    "-dot",
    "-sample_index=inuse_space",
    "-nodefraction=0",
    "-edgefraction=0",
    "-nodecount=1000",
    "-trim=false",
    file,
  );
  const edges = new Map();
  for (const [, from, to, value] of text.matchAll(/tooltip="([^"]+?) -> ([^"]+?) \((\d+)B\)"/g))
    edges.set(`${from} → ${to}`, Number(value));
  return edges;
}

test("the graph has the nodes of top and the edges of pprof", { timeout: TEST_TIMEOUT_MS }, async () => {
  // pprof shows stacks as they are.
  const page = await openPage(files, { view: "graph", at: 2, nodes: 0, edges: 0, most: 160, raw: 1 });
  await page.locator(".graph g[role=button]").first().waitFor();
  const table = top(second, "--raw");
  const holding = table.functions.filter((row) => row.cum > 0);
  await eventually(async () => {
    const labels = await page.locator(".graph g[role=button]").evaluateAll((nodes) =>
      nodes.map((node) =>
        node
          .getAttribute("aria-label")
          .replace(/ [\d.]+ %|100 %/g, "")
          .trim(),
      ),
    );
    assert.deepEqual(
      labels.sort(),
      holding.map((row) => `${row.name}: itself ${bytes(row.flat)} of ${bytes(row.cum)}`).sort(),
    );
  });
  const edges = await page.locator(".graph .edge title").evaluateAll((all) => all.map((one) => one.textContent));
  const reference = [...pprofEdges(second)]
    .filter(([, value]) => value > 0)
    .map(([calls, value]) => `${calls}: ${bytes(value)}`);
  assert.ok(reference.length > 5, `${reference.length} edges of pprof`);
  assert.deepEqual(edges.sort(), reference.sort());
  await checkAccessibility(page, "graph");
  await closePage(page);
});

test("the graph omits small functions, filters by click, and is navigated by keyboard", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(files, { view: "graph", at: 2 });
  const node = (name) => page.getByRole("button", { name: new RegExp(`^${name}: itself`) });
  await node("leaky_parser").waitFor();
  const before = await page.locator(".graph g[role=button]").count();
  await page.getByLabel("functions from").selectOption("10");
  await eventually(() => assert.match(page.url(), /nodes=10/));
  await eventually(async () => assert.ok((await page.locator(".graph g[role=button]").count()) <= 10));
  // It is random which small functions have a sample: there may be no more than 10 functions.
  if (before > 10) await page.getByText(/functions are left out/).waitFor();
  await node("leaky_parser").click();
  await node("steady_work").waitFor({ state: "detached" });
  await node("leaky_session").waitFor({ state: "detached" });
  assert.equal(await page.getByLabel("focus").inputValue(), "^leaky_parser$");
  assert.equal(await node("leaky_parser").getAttribute("aria-pressed"), "true");
  const row = top(second).functions.find((one) => one.name === "leaky_parser");
  await eventually(async () =>
    assert.equal(
      await page.locator(".total strong").textContent(),
      bytes(row.cum),
      "the total is what goes through it",
    ),
  );
  await page.keyboard.press("Escape");
  await node("leaky_session").waitFor();
  await node("leaky_parser").focus();
  await page.keyboard.press("ArrowUp");
  await eventually(async () => assert.match(await page.locator(".detail").textContent(), /^main:/));
  await page.keyboard.press("ArrowDown");
  await eventually(async () => assert.doesNotMatch(await page.locator(".detail").textContent(), /^main:/));
  await node("main").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("focus=%5Emain%24"));
  await closePage(page);
});

test("the graph is saved as SVG and PNG", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "graph", at: 2 });
  await page.locator(".graph g[role=button]").first().waitFor();
  const svg = await saveFile(page, () => page.getByRole("button", { name: "SVG" }).click());
  assert.equal(svg.name, "seemalloc.graph.svg");
  const shown = await page.evaluate((text) => {
    const one = new DOMParser().parseFromString(text, "image/svg+xml");
    return {
      error: one.querySelector("parsererror")?.textContent,
      boxes: one.querySelectorAll("g[role=button]").length,
      width: Number(one.documentElement.getAttribute("width")),
    };
  }, svg.data.toString());
  assert.equal(shown.error, undefined);
  assert.equal(shown.boxes, await page.locator(".graph g[role=button]").count());
  assert.ok(shown.width > 100);
  const png = await saveFile(page, () => page.getByRole("button", { name: "PNG" }).click());
  assert.equal(png.data.subarray(1, 4).toString(), "PNG");
  assert.equal(png.data.readUInt32BE(16), 2 * shown.width, "twice as fine");
  await closePage(page);
});

/** The lines of `pprof -list`: number → [flat, cum]. */
function pprofLines(file, name, ...args) {
  const lines = {};
  for (const [, flat, cum, number] of pprof("-sample_index=inuse_space", ...args, `-list=^${name}$`, file).matchAll(
    /^ *(\.|-?\d+B?) +(\.|-?\d+B?) +(\d+):/gm,
  )) {
    const value = (text) => (text === "." ? 0 : parseInt(text, 10));
    if (value(flat) || value(cum)) lines[number] = [value(flat), value(cum)];
  }
  return lines;
}

test("the source has the bytes of pprof -list on its lines", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "source", at: 2, function: "leaky_session", raw: 1 });
  await page.locator("table.source tbody tr").first().waitFor();
  for (const name of ["leaky_session", "leaky_parser", "filled", "main"]) {
    await page.getByLabel("function", { exact: true }).fill(name);
    await page.keyboard.press("Enter");
    await page.getByRole("table", { name: `Source of ${name}`, exact: true }).waitFor();
    const reference = Object.entries(pprofLines(second, name)).map(([number, [flat, cum]]) => [
      flat ? bytes(flat) : "0 B",
      bytes(cum),
      number,
    ]);
    assert.ok(reference.length > 0, name);
    const text = readFileSync(source, "utf8").split("\n");
    await eventually(async () => {
      // the text appears after the figures
      const rows = await page
        .locator("table.source tr.has-value")
        .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
      assert.deepEqual(
        rows.map((cells) => [cells[0] || "0 B", cells[1], cells[2]]),
        reference,
        name,
      );
      for (const cells of rows) assert.equal(cells[3], text[cells[2] - 1]);
    });
  }
  await page.getByRole("button", { name: /^all \d+ lines of the file/ }).click();
  await eventually(async () =>
    assert.equal(
      await page.locator("table.source tbody tr").count(),
      readFileSync(source, "utf8").trimEnd().split("\n").length,
    ),
  );
  await checkAccessibility(page, "source");
  await closePage(page);
});

test("missing source is reported, and its lines still have their bytes", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  // The same profile, with the file at another path.
  const { gunzipSync } = await import("node:zlib");
  const { writeFileSync } = await import("node:fs");
  const moved = `${second}.moved.pb`;
  const elsewhere = source.replace(/^./, "X"); // the same length: strings of a protobuf include their length
  writeFileSync(
    moved,
    Buffer.from(gunzipSync(readFileSync(second)).toString("latin1").replaceAll(source, elsewhere), "latin1"),
  );
  const address = await serve("--source-path", tempDir, moved);
  const page = await openPage(address, { view: "source", function: "leaky_parser" });
  await page.getByText(/is not on this machine; .*--source-path/).waitFor();
  const lines = Object.keys(pprofLines(second, "leaky_parser"));
  await eventually(async () =>
    assert.deepEqual(
      await page.locator("table.source tr.has-value").evaluateAll((all) => all.map((row) => row.cells[2].textContent)),
      lines,
    ),
  );
  await checkAccessibility(page, "source that is not here"); // no column without a heading
  page.errors = page.errors.filter((text) => !/404/.test(text)); // the console reports the missing file
  await closePage(page);
  const found = await openPage(
    await serve(
      "--source-path",
      root,
      "--trim-path",
      elsewhere.slice(0, elsewhere.length - "demo/leak.cc".length),
      moved,
    ),
    { view: "source", function: "leaky_parser" },
  );
  await found.getByText(`Read from ${source}`).waitFor();
  await closePage(found);
});

/** Opens pprof's pages; retries where the page was being redrawn and the click was lost. */
async function toPprof(page) {
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  await eventually(async () => {
    if (!page.url().includes("/pprof/")) await page.getByRole("link", { name: "pprof" }).click({ timeout: 5_000 });
    assert.match(page.url(), /\/pprof\//);
  });
  await page.locator("#toptable tbody tr").first().waitFor();
}

test("pprof's pages have the same figures, load nothing, and link back", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", at: 2 });
  await toPprof(page);
  await eventually(() => assert.match(page.url(), /\/pprof\/2\/top\?si=inuse_space/));
  const rows = await page
    .locator("#toptable tbody tr")
    .evaluateAll((all) => all.map((row) => row.cells[5].textContent));
  const { functions, total } = top(second, "--raw");
  const own = functions.filter((row) => row.flat > 0.005 * total).map((row) => row.name); // smaller ones are left out
  assert.deepEqual(rows.slice(0, own.length), own);
  const disassembly = spawnSync("objdump", ["--version"]).status === 0;
  for (const [name, want] of [
    ["flamegraph", /leaky_session/],
    ["peek?f=leaky_parser", /filled/],
    ["source?f=leaky_parser", /kept\.push_back/],
    ["disasm?f=leaky_parser", disassembly ? /call/ : /leaky_parser|disassembl/],
  ]) {
    await page.goto(`${files}pprof/2/${name}`);
    await page.locator("#content, #stack-chart").first().waitFor();
    if (name === "flamegraph")
      await page.waitForFunction(() => document.querySelectorAll("#stack-chart .boxtext").length > 0);
    assert.match(await page.locator("#content, #stack-chart").first().innerText(), want, name);
  }
  await page.goto(`${files}pprof/2/source?f=leaky_parser`);
  await page.locator("pre .livesrc, pre .deadsrc, pre .line").first().waitFor();
  const hasDot = spawnSync("dot", ["-V"]).status === 0;
  await page.goto(`${files}pprof/2/graph`);
  if (hasDot) await page.locator("#graph svg").waitFor();
  else await page.getByText("apt install graphviz").waitFor();
  page.errors = page.errors.filter((text) => hasDot || !/501/.test(text));
  await page.goto(`${files}pprof/2/top`);
  const fonts = await page.evaluate(() => getComputedStyle(document.body).fontFamily);
  assert.match(fonts, /^system-ui/, "in our look");
  await page.getByRole("link", { name: "← seemalloc" }).click();
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await eventually(() => assert.match(page.url(), /view=functions/));
  await eventually(() => assert.match(page.url(), /at=2/));
  await closePage(page);
});

test("there is no link to pprof with filters that it does not support", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", at: 2, module: "leak" });
  await page.getByText("no pprof with these filters").waitFor();
  await page.getByLabel("module").selectOption("");
  await page.getByRole("link", { name: "pprof" }).waitFor();
  await closePage(page);
});

test("the link to pprof includes the filters and the comparison", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", at: 2, base: 1, focus: "LEAKY_session" });
  await toPprof(page);
  await eventually(() => assert.match(page.url(), /\/pprof\/2-1\/top/));
  const rows = await page
    .locator("#toptable tbody tr")
    .evaluateAll((all) => all.map((row) => row.cells[5].textContent));
  assert.ok(rows.includes("leaky_session") && !rows.includes("leaky_parser"), rows.join());
  await closePage(page);
});

test("the changes equal those of seemalloc diff, by stack and in total", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "changes", at: 2 });
  await page.getByText("Choose two moments, or two files").waitFor();
  await page.getByLabel("compared with").selectOption("1");
  await page.getByRole("table", { name: "Stacks" }).waitFor();
  const reference = diff(first, second);
  const read = () =>
    page
      .getByRole("table", { name: "Stacks" })
      .locator("tbody tr")
      .evaluateAll((rows) =>
        rows.map((row) => {
          const [change, before, after, what, stack] = [...row.cells];
          return {
            change: change.textContent,
            before: before.textContent,
            after: after.textContent,
            what: what.textContent,
            stack: stack.querySelector("span").title,
          };
        }),
      );
  const named = (one) => (one.before === 0 ? "new" : one.after === 0 ? "gone" : one.change > 0 ? "grown" : "shrunk");
  const wanted = reference.stacks
    .filter((one) => one.change !== 0)
    .map((one) => ({
      change: bytes(one.change, true),
      before: bytes(one.before),
      after: bytes(one.after),
      what: named(one),
      stack: one.stack.join("\n"),
    }));
  assert.ok(wanted.length >= 2, `${wanted.length} stacks changed`);
  const order = (rows) => [...rows].sort((a, b) => (a.stack < b.stack ? -1 : 1));
  await eventually(async () => assert.deepEqual(order(await read()), order(wanted)));
  const totals = await page
    .getByRole("table", { name: "Totals" })
    .locator("tr")
    .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.equal(totals[0][1], bytes(reference.total.before));
  assert.equal(totals.at(-1)[1], bytes(reference.total.after));
  assert.equal(totals.at(-1)[3], `${bytes(reference.total.change, true)} in all`);
  for (const what of ["new", "grown", "shrunk", "gone"]) {
    const of = reference.stacks.filter((one) => one.change !== 0 && named(one) === what);
    const row = totals.find((cells) => cells[0] === what);
    assert.deepEqual(
      [row[1], parseInt(row[3], 10)],
      [
        bytes(
          of.reduce((sum, one) => sum + one.change, 0),
          true,
        ),
        of.length,
      ],
      what,
    );
  }
  await page.getByRole("button", { name: "grown" }).click();
  await eventually(() => assert.match(page.url(), /what=grown/));
  await eventually(async () => assert.deepEqual(new Set((await read()).map((row) => row.what)), new Set(["grown"])));
  await checkAccessibility(page, "changes");
  // In the reverse direction new stacks appear as gone.
  await page.goto(`${files}#${new URLSearchParams({ view: "changes", at: 1, base: 2 })}`);
  await page.getByText(`${bytes(-reference.total.change)} in all`).waitFor();
  await closePage(page);
});
