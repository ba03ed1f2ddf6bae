// The filter by thread, in a real Chromium: its figures are those of `seemalloc top --thread`, of a process, of a file
// and in a report.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  bytes,
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  serve,
  startBrowser,
  TEST_TIMEOUT_MS,
  takeProfile,
  tearDown,
  tempDir,
  tool,
  top,
} from "./harness.mjs";
import { startShapes } from "./shapes.mjs";

let shapes, url;

before(
  async () => {
    shapes = await startShapes("1");
    await shapes.runStep("t");
    url = await serve(shapes.pid);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

const threadInput = (page) => page.getByLabel("thread", { exact: true });

async function setFilter(page, pattern) {
  await threadInput(page).fill(pattern);
  await threadInput(page).press("Enter");
}

const waitForTotal = (page, text) =>
  page.waitForFunction((want) => document.querySelector(".total strong")?.textContent === want, text);

/** Known from shapes.cc, and the tool's figures for the same. */
function liveBytes(pattern, blocks) {
  const { total, functions } = top(shapes.pid, "--thread", pattern);
  assert.equal(functions.find((row) => row.name.endsWith("holds")).cum, blocks * 4096);
  return bytes(total);
}

test("the heap is filtered by thread, and the address stores the filter", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  await setFilter(page, "^writer");
  await waitForTotal(page, liveBytes("^writer", 300));
  await eventually(() => assert.match(page.url(), /kind=threads/));
  await eventually(() => assert.match(page.url(), /thread=%5Ewriter/));
  await eventually(async () =>
    assert.deepEqual(
      await page
        .locator("#thread-names option")
        .evaluateAll((all) => all.map((one) => one.value).filter((name) => name !== "shapes" && name !== "seemalloc")),
      ["reader", "writer 1", "writer 2"],
    ),
  );
  await setFilter(page, "reader");
  await waitForTotal(page, liveBytes("reader", 400));
  await setFilter(page, "nobody");
  await waitForTotal(page, "0 B");
  await setFilter(page, "writer 2");
  await waitForTotal(page, liveBytes("writer 2", 100));
  await checkAccessibility(page, "threads");
  const link = page.url();
  await closePage(page);
  const again = await openPage(link);
  await waitForTotal(again, liveBytes("writer 2", 100));
  assert.equal(await threadInput(again).inputValue(), "writer 2");
  await again.getByRole("link", { name: "pprof" }).click();
  await again.locator("#toptable tbody tr").first().waitFor();
  await eventually(() => assert.match(again.url(), /tf=thread/));
  const rows = await again
    .locator("#toptable tbody tr")
    .evaluateAll((all) => all.map((row) => [row.cells[5].textContent, row.cells[3].textContent]));
  const filled = rows.find(([name]) => name.endsWith("holds"));
  assert.ok(filled && /^400(\.00)?kB$/.test(filled[1]), `pprof: ${rows.join("; ")}`);
  await closePage(again);
});

test("patterns follow the server's syntax: invalid ones are reported and marked", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "functions", kind: "threads" });
  await page.getByRole("row", { name: /holds/ }).waitFor();
  const whole = await page.locator(".total strong").textContent();
  const marked = (want) =>
    page.waitForFunction(
      (value) => document.querySelector("input[list=thread-names]").getAttribute("aria-invalid") === value,
      want,
    );
  for (const [pattern, why] of [
    ["(", "missing closing )"],
    ["(?=r)reader", "invalid or unsupported Perl syntax"],
  ]) {
    await setFilter(page, pattern);
    await page
      .getByRole("alert")
      .filter({ hasText: `thread=${pattern}: expected a thread's id, or a regular expression: ${why}` })
      .waitFor();
    await marked("true");
    assert.equal(await page.locator(".total strong").textContent(), whole, "what was there stays");
  }
  await setFilter(page, "(?i)^READER");
  await waitForTotal(page, liveBytes("reader", 400));
  await marked("false");
  assert.equal(await page.locator("p.problem").count(), 0);
  await page.goto("about:blank");
  await page.goto(`${url}#view=functions&filters=1&kind=threads&thread=(`);
  await page.getByRole("alert").filter({ hasText: "missing closing )" }).waitFor();
  await setFilter(page, "reader");
  await waitForTotal(page, liveBytes("reader", 400)); // an invalid filter in a link can be corrected
  page.errors = page.errors.filter((one) => !one.includes("400")); // caused by the refused requests
  await closePage(page);
});

test("a kind without threads is shown unfiltered", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions", kind: "threads", thread: "reader" });
  await waitForTotal(page, liveBytes("reader", 400));
  await page.getByLabel("profile").selectOption("allocs");
  await threadInput(page).waitFor({ state: "detached" }); // the old answer is shown until the new one arrives
  await page.getByRole("row", { name: /holds/ }).waitFor();
  await eventually(() => assert.doesNotMatch(page.url(), /thread=/));
  await closePage(page);
});

test("files and reports have the thread filter", { timeout: TEST_TIMEOUT_MS }, async () => {
  const file = takeProfile(shapes.pid, "threads.pb.gz", "--kind", "threads");
  const saved = await openPage(await serve(file), { view: "functions", thread: "reader" });
  await waitForTotal(saved, liveBytes("reader", 400));
  await closePage(saved);
  const html = join(tempDir, "threads.html");
  execFileSync(tool, ["report", shapes.pid, "-o", html, "--for", "2s"]);
  const report = await openPage(pathToFileURL(html).href, { view: "functions", kind: "threads" });
  await report.getByRole("row", { name: /holds/ }).waitFor();
  for (const [pattern, blocks] of [
    ["^writer", 300],
    ["reader", 400],
  ]) {
    await setFilter(report, pattern);
    await waitForTotal(report, liveBytes(pattern, blocks));
  }
  await setFilter(report, "(?i)READER");
  await report
    .getByRole("alert")
    .filter({ hasText: "thread=(?i)READER: expected a regular expression, read as JavaScript does: " })
    .waitFor();
  await closePage(report);
  const heap = await openPage(pathToFileURL(html).href, { view: "functions" });
  await heap.getByRole("row", { name: /holds/ }).waitFor();
  await threadInput(heap).waitFor();
  await closePage(heap);
  // The format used when there are more than 100 threads.
  const many = join(tempDir, "many.html");
  writeFileSync(
    many,
    readFileSync(html, "utf8").replace(
      /(<script type="application\/json" id="report">)(.*?)(<\/script>)/s,
      (_, begin, data, end) => {
        const report = JSON.parse(data);
        for (const profile of Object.values(report.profiles)) {
          delete profile.threads;
          delete profile.row_threads;
        }
        return begin + JSON.stringify(report).replaceAll("<", "\\u003c") + end;
      },
    ),
  );
  for (const kind of ["heap", "threads"]) {
    const page = await openPage(pathToFileURL(many).href, { view: "functions", kind });
    await page.getByRole("row", { name: /holds/ }).waitFor();
    assert.equal(await threadInput(page).count(), 0, `${kind}: what the report cannot do is not offered`);
    await closePage(page);
  }
});
