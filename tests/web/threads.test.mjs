// The filter by thread, in a real Chromium: its figures are those of `seemalloc top --thread`, of a process, of a file
// and in a report.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { LONG, accessible, bytes, close, end, folder, open, serve, soon, startBrowser, takeProfile, tool, top } from "./harness.mjs";
import { startShapes } from "./shapes.mjs";

let shapes, url;

before(async () => {
  shapes = await startShapes("1");
  await shapes.tell("t");
  url = await serve(shapes.pid);
  await startBrowser();
}, { timeout: LONG });

after(end);

const filter = (page) => page.getByLabel("thread", { exact: true });

async function choose(page, pattern) {
  await filter(page).fill(pattern);
  await filter(page).press("Enter");
}

const shows = (page, text) => page.waitForFunction((want) => document.querySelector(".sum strong")?.textContent === want, text);

/** Known from shapes.cc, and the tool's figures for the same. */
function held(pattern, blocks) {
  const { total, functions } = top(shapes.pid, "--thread", pattern);
  assert.equal(functions.find((row) => row.name.endsWith("holds")).cum, blocks * 4096);
  return bytes(total);
}

test("the heap is shown by thread, and the address keeps which", { timeout: LONG }, async () => {
  const page = await open(url, { view: "functions" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  await choose(page, "^writer");
  await shows(page, held("^writer", 300));
  await soon(() => assert.match(page.url(), /kind=threads/));
  await soon(() => assert.match(page.url(), /thread=%5Ewriter/));
  await soon(async () => assert.deepEqual(await page.locator("#thread-names option").evaluateAll((all) => all.map((one) => one.value).filter((name) => name !== "shapes" && name !== "seemalloc")),
    ["reader", "writer 1", "writer 2"]));
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
  await soon(() => assert.match(again.url(), /tf=thread/));
  const rows = await again.locator("#toptable tbody tr").evaluateAll((all) => all.map((row) => [row.cells[5].textContent, row.cells[3].textContent]));
  const filled = rows.find(([name]) => name.endsWith("holds"));
  assert.ok(filled && /^400(\.00)?kB$/.test(filled[1]), `pprof: ${rows.join("; ")}`);
  await close(again);
});

test("what the server cannot read is said and marked, and what it can is shown, whatever JavaScript makes of it", { timeout: LONG }, async () => {
  const page = await open(url, { view: "functions", kind: "threads" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  const whole = await page.locator(".sum strong").textContent();
  const marked = (want) => page.waitForFunction((value) => document.querySelector("input[list=thread-names]").getAttribute("aria-invalid") === value, want);
  for (const [pattern, why] of [["(", "missing closing )"], ["(?=r)reader", "invalid or unsupported Perl syntax"]]) {
    await choose(page, pattern);
    await page.getByRole("alert").filter({ hasText: `thread=${pattern}: expected a thread's id, or a regular expression: ${why}` }).waitFor();
    await marked("true");
    assert.equal(await page.locator(".sum strong").textContent(), whole, "what was there stays");
  }
  await choose(page, "(?i)^READER");
  await shows(page, held("reader", 400));
  await marked("false");
  assert.equal(await page.locator("p.problem").count(), 0);
  await page.goto("about:blank");
  await page.goto(`${url}#view=functions&kind=threads&thread=(`);
  await page.getByRole("alert").filter({ hasText: "missing closing )" }).waitFor();
  await choose(page, "reader");
  await shows(page, held("reader", 400)); // an invalid filter in a link can be corrected
  page.errors = page.errors.filter((one) => !one.includes("400")); // caused by the refused requests
  await close(page);
});

test("another kind has no threads, and is shown whole", { timeout: LONG }, async () => {
  const page = await open(url, { view: "functions", kind: "threads", thread: "reader" });
  await shows(page, held("reader", 400));
  await page.getByLabel("profile").selectOption("allocs");
  await filter(page).waitFor({ state: "detached" }); // the old answer is shown until the new one arrives
  await page.getByRole("row", { name: /holds/ }).waitFor();
  await soon(() => assert.doesNotMatch(page.url(), /thread=/));
  await close(page);
});

test("a file and a report have the filter, too", { timeout: LONG }, async () => {
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
  await choose(report, "(?i)READER");
  await report.getByRole("alert").filter({ hasText: "thread=(?i)READER: expected a regular expression, read as JavaScript does: " }).waitFor();
  await close(report);
  const heap = await open(pathToFileURL(html).href, { view: "functions" });
  await heap.getByRole("row", { name: /holds/ }).waitFor();
  await filter(heap).waitFor();
  await close(heap);
  // The format used when there are more than 100 threads.
  const many = join(folder, "many.html");
  writeFileSync(many, readFileSync(html, "utf8").replace(/(<script type="application\/json" id="report">)(.*?)(<\/script>)/s, (_, begin, data, end) => {
    const report = JSON.parse(data);
    for (const one of Object.values(report.profiles)) delete one.threads, delete one.row_threads;
    return begin + JSON.stringify(report).replaceAll("<", "\\u003c") + end;
  }));
  for (const kind of ["heap", "threads"]) {
    const page = await open(pathToFileURL(many).href, { view: "functions", kind });
    await page.getByRole("row", { name: /holds/ }).waitFor();
    assert.equal(await filter(page).count(), 0, `${kind}: what the report cannot do is not offered`);
    await close(page);
  }
});
