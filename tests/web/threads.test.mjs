// The filter of threads, in a real Chromium: its figures are those of `seemalloc top --thread`, of a process, of a file and in a report.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { accessible, bytes, close, end, folder, open, serve, startBrowser, takeProfile, tool, top } from "./harness.mjs";
import { startShapes } from "./shapes.mjs";

let shapes, url;

before(async () => {
  shapes = await startShapes("1");
  await shapes.tell("t");
  url = await serve(shapes.pid);
  await startBrowser();
}, { timeout: 120_000 });

after(end);

const filter = (page) => page.getByLabel("thread", { exact: true });

async function choose(page, pattern) {
  await filter(page).fill(pattern);
  await filter(page).press("Enter");
}

const shows = (page, text) => page.waitForFunction((want) => document.querySelector(".sum strong")?.textContent === want, text);

/** Known from shapes.cc, and what the tool says of the same. */
function held(pattern, blocks) {
  const { total, functions } = top(shapes.pid, "--thread", pattern);
  assert.equal(functions.find((row) => row.name.endsWith("holds")).cum, blocks * 4096);
  return bytes(total);
}

test("the heap is shown by thread, and the address keeps which", { timeout: 60_000 }, async () => {
  const page = await open(url, { view: "functions" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  await choose(page, "^writer");
  await shows(page, held("^writer", 300));
  assert.match(page.url(), /kind=threads/);
  assert.match(page.url(), /thread=%5Ewriter/);
  assert.deepEqual(await page.locator("#thread-names option").evaluateAll((all) => all.map((one) => one.value).filter((name) => name !== "shapes" && name !== "seemalloc")),
    ["reader", "writer 1", "writer 2"]);
  await choose(page, "reader");
  await shows(page, held("reader", 400));
  await choose(page, "nobody");
  await shows(page, "0 B");
  await choose(page, "writer 2");
  await shows(page, held("writer 2", 100));
  await accessible(page, "threads");
  const link = page.url();
  await close(page);
  const again = await open(link);
  await shows(again, held("writer 2", 100));
  assert.equal(await filter(again).inputValue(), "writer 2");
  await again.getByRole("link", { name: "pprof" }).click();
  await again.locator("#toptable tbody tr").first().waitFor();
  assert.match(again.url(), /tf=thread/);
  const rows = await again.locator("#toptable tbody tr").evaluateAll((all) => all.map((row) => [row.cells[5].textContent, row.cells[3].textContent]));
  const filled = rows.find(([name]) => name.endsWith("holds"));
  assert.ok(filled && /^400(\.00)?kB$/.test(filled[1]), `pprof: ${rows.join("; ")}`);
  await close(again);
});

test("a pattern that cannot be read is marked, and nothing is asked", { timeout: 60_000 }, async () => {
  const page = await open(url, { view: "functions", kind: "threads" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  const whole = await page.locator(".sum strong").textContent();
  const wrong = [];
  page.on("request", (request) => /thread=%28|thread=\(/.test(request.url()) && wrong.push(request.url()));
  await choose(page, "(");
  await page.waitForFunction(() => document.querySelector("input[list=thread-names]").getAttribute("aria-invalid") === "true");
  await page.waitForTimeout(500); // it would have been asked for at once
  assert.deepEqual(wrong, []);
  assert.equal(await page.locator(".sum strong").textContent(), whole);
  assert.equal(await page.locator("p.problem").count(), 0);
  await close(page);
});

test("another kind has no threads, and is shown whole", { timeout: 60_000 }, async () => {
  const page = await open(url, { view: "functions", kind: "threads", thread: "reader" });
  await shows(page, held("reader", 400));
  await page.getByLabel("profile").selectOption("allocs");
  await filter(page).waitFor({ state: "detached" }); // the old answer is shown until the new one is here
  await page.getByRole("row", { name: /holds/ }).waitFor();
  assert.doesNotMatch(page.url(), /thread=/);
  await close(page);
});

test("a file and a report have the filter, too", { timeout: 120_000 }, async () => {
  const file = takeProfile(shapes.pid, "threads.pb.gz", "--kind", "threads");
  const saved = await open(await serve(file), { view: "functions", thread: "reader" });
  await shows(saved, held("reader", 400));
  await close(saved);
  const html = join(folder, "threads.html");
  execFileSync(tool, ["report", shapes.pid, "-o", html, "--for", "2s"]);
  const report = await open(pathToFileURL(html).href, { view: "functions", kind: "threads" });
  await report.getByRole("row", { name: /holds/ }).waitFor();
  for (const [pattern, blocks] of [["^writer", 300], ["reader", 400]]) {
    await choose(report, pattern);
    await shows(report, held(pattern, blocks));
  }
  await close(report);
});
