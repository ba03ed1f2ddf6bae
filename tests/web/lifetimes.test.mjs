// The view of lifetimes, in a real Chromium: its figures are those of `seemalloc top --kind lifetime` and of what the program did.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { accessible, close, end, open, serve, startBrowser, tool } from "./harness.mjs";
import { endShapes, startShapes } from "./shapes.mjs";

let shapes, url;

before(async () => {
  shapes = await startShapes("1");
  await shapes.tell("l");
  url = await serve(shapes.pid);
  await startBrowser();
}, { timeout: 120_000 });

after(async () => {
  endShapes();
  await end();
});

function number(text) {
  return Number(text.replaceAll(",", ""));
}

test("the histogram is that of the profile", { timeout: 60_000 }, async () => {
  const page = await open(url, { view: "lifetimes" });
  await page.locator("table.histogram tbody tr").first().waitFor();
  const shown = await page.locator("table.histogram tbody tr").evaluateAll((rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent]));
  const ages = {};
  const rows = JSON.parse(execFileSync(tool, ["top", shapes.pid, "--kind", "lifetime", "--json", "-n", "0"])).lifetimes;
  for (const row of rows) for (const [name, count] of Object.entries(row.ages)) ages[name] = (ages[name] ?? 0) + count;
  assert.equal(shown.length, 11);
  for (const [name, count] of shown) assert.equal(number(count), ages[name] ?? 0, name);
  const freed = rows.reduce((sum, row) => sum + row.freed, 0);
  await page.getByText(`of ${freed.toLocaleString("en")} freed blocks were`).waitFor();
  await accessible(page, "lifetimes");
  await close(page);
});

test("stacks tell temporary blocks, those of other threads and those that waited", { timeout: 60_000 }, async () => {
  const page = await open(url, { view: "lifetimes" });
  const cells = async (name) => page.locator("table.stacks tbody tr").filter({ hasText: name }).filter({ hasText: "filled" }).first().evaluate((row) => [...row.cells].map((cell) => cell.textContent));
  await page.locator("table.stacks tbody tr").first().waitFor();
  assert.match(await page.locator("table.stacks tbody tr").first().textContent(), /temporary/, "most temporary blocks first");
  const temporary = await cells("temporary");
  assert.deepEqual([temporary[0], temporary[1], temporary[2], temporary[4]], ["1,000", "100 %", "1,000", "0"]);
  const over = await cells("handed_over");
  assert.equal(over[2], "300");
  assert.equal(over[5], "100 %");
  const waited = await cells("waits_a_while");
  assert.deepEqual([waited[0], waited[2]], ["0", "50"]);
  assert.match(waited[6], /^3\d\d\.\d ms$/);
  await page.getByRole("button", { name: "100ms to 1s" }).click();
  await page.locator("table.stacks tbody tr").filter({ hasText: "temporary" }).waitFor({ state: "detached" });
  assert.equal((await cells("waits_a_while"))[2], "50");
  await page.getByRole("button", { name: "all", exact: true }).click();
  await page.getByLabel("order by").selectOption("mean");
  assert.match(await page.locator("table.stacks tbody tr").first().textContent(), /waits_a_while/);
  await page.getByRole("button", { name: "temporary" }).first().click();
  await page.getByText("called by").waitFor();
  await close(page);
});

test("the words are explained", async () => {
  const page = await open(url, { view: "lifetimes" });
  for (const word of ["lifetime", "temporary", "by another thread"]) {
    assert.ok((await page.locator("abbr").filter({ hasText: word }).first().getAttribute("title")).length > 20, word);
  }
  await close(page);
});
