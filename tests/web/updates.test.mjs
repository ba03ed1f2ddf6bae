// Large data does not block the page: profiles are read by its worker, long tables are drawn one piece per frame.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { closePage, openPage, root, serve, startBrowser, TEST_TIMEOUT_MS, tearDown, tempDir, top } from "./harness.mjs";

const ROWS = 500; // of a table
const PIECE = 100;

let file, url;

before(
  async () => {
    file = join(tempDir, "many.pb.gz");
    execFileSync("go", ["run", "./bench/page/bigprofile", file, "20000"], { cwd: root });
    url = await serve(file);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

const names = (page) => page.locator("tbody tr td.name button").evaluateAll((all) => all.map((one) => one.textContent));

/** Waits until this many rows are present. */
const waitForRows = (page, count) =>
  page.waitForFunction((want) => document.querySelectorAll("tbody tr").length === want, count);

test("a table of 500 rows equals seemalloc top, and is drawn 100 rows per frame", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "growth" });
  await page.getByText("Growth needs 2 profiles").waitFor();
  await page.evaluate(() => {
    window.pieces = [];
    const rowsOf = (nodes) =>
      [...nodes].reduce(
        (sum, node) => sum + (node.nodeName === "TR" ? 1 : (node.querySelectorAll?.("tbody tr").length ?? 0)),
        0,
      );
    // Called once after each task that has changed something.
    new MutationObserver((changes) => {
      const added = changes.reduce((sum, change) => sum + rowsOf(change.addedNodes), 0);
      if (added > 1) window.pieces.push(added);
    }).observe(document.querySelector("main"), { childList: true, subtree: true });
    location.hash = "view=functions&sort=cum";
  });
  await waitForRows(page, ROWS);
  const pieces = await page.evaluate(() => window.pieces);
  assert.ok(pieces.length >= ROWS / PIECE && Math.max(...pieces) <= PIECE + 1, `rows at a time: ${pieces}`);
  const expected = [...top(file).functions].sort((a, b) => b.cum - a.cum);
  assert.deepEqual(
    (await names(page)).slice(0, 5),
    expected.slice(0, 5).map((row) => row.name),
  );
  await page.getByRole("button", { name: "function", exact: true }).click();
  const sorted = expected
    .map((row) => row.name)
    .sort()
    .slice(0, ROWS);
  await page.waitForFunction(
    (want) => [...document.querySelectorAll("tbody td.name button")].map((one) => one.textContent).join() === want,
    sorted.join(),
  );
  await page.getByLabel("search").fill("method_1000[0-5]?$");
  await waitForRows(page, expected.filter((row) => /method_1000[0-5]?$/.test(row.name)).length);
  await closePage(page);
});

test("only the worker reads profiles, and only the last of many requests is answered", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "functions" });
  await waitForRows(page, ROWS);
  const asked = await page.evaluate(() => performance.getEntriesByType("resource").map((one) => one.name));
  assert.ok(
    asked.some((one) => one.includes("api/state")),
    "others are read by the page",
  );
  assert.deepEqual(
    asked.filter((one) => one.includes("api/profile")),
    [],
  );
  const [worker] = page.workers();
  const read = await worker.evaluate(
    () =>
      performance
        .getEntriesByType("resource")
        .map((one) => one.name)
        .filter((one) => one.includes("api/profile")).length,
  );
  assert.equal(read, 1);
  await page.getByLabel("focus").pressSequentially("method_1999$", { delay: 5 });
  const held = top(file, "--focus", "method_1999$");
  await page.waitForFunction((want) => document.querySelectorAll("tbody tr").length === want, held.functions.length);
  assert.equal(
    await worker.evaluate(
      () => performance.getEntriesByType("resource").filter((one) => one.name.includes("api/profile")).length,
    ),
    1,
    "filters ask for no other profile",
  );
  await closePage(page);
});

test("a worker that cannot be loaded is reported", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage("about:blank");
  await page.route(/worker\.js$/, (route) => route.abort());
  await page.goto(`${url}#view=flame`);
  await page.getByRole("alert").filter({ hasText: "the page's worker failed: worker.js cannot be loaded" }).waitFor();
  await page.context().close();
});
