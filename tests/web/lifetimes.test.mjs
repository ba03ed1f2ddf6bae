// The view of lifetimes, in a real Chromium: its figures are those of `seemalloc top --kind lifetime`, and match the
// program.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import {
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  serve,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  tool,
  top,
} from "./harness.mjs";
import { startShapes } from "./shapes.mjs";

let shapes, url, took; // ms

before(
  async () => {
    shapes = await startShapes("1");
    const began = performance.now();
    await shapes.runStep("l");
    took = performance.now() - began;
    url = await serve("--allow-set", shapes.pid);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

function number(text) {
  return Number(text.replaceAll(",", ""));
}

/** ms of "345.6 ms", "1.23 s". */
function ms(text) {
  const [value, unit] = text.split(" ");
  return parseFloat(value) * { us: 1e-3, ms: 1, s: 1000, min: 60_000 }[unit];
}

test("the histogram equals that of the profile", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "lifetimes" });
  await page.locator("table.histogram tbody tr").first().waitFor();
  const shown = await page
    .locator("table.histogram tbody tr")
    .evaluateAll((rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent]));
  const ages = {};
  const rows = JSON.parse(execFileSync(tool, ["top", shapes.pid, "--kind", "lifetime", "--json", "-n", "0"])).lifetimes;
  for (const row of rows) for (const [name, count] of Object.entries(row.ages)) ages[name] = (ages[name] ?? 0) + count;
  assert.equal(shown.length, 11);
  for (const [name, count] of shown) assert.equal(number(count), ages[name] ?? 0, name);
  const freed = rows.reduce((sum, row) => sum + row.freed, 0);
  await page.getByText(`of ${freed.toLocaleString("en")} freed blocks were`).waitFor();
  await checkAccessibility(page, "lifetimes");
  await closePage(page);
});

test("stacks show temporary blocks, remote frees and long-lived blocks", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "lifetimes" });
  const cells = async (name) =>
    page
      .locator("table.stacks tbody tr")
      .filter({ hasText: name })
      .filter({ hasText: "filled" })
      .first()
      .evaluate((row) => [...row.cells].map((cell) => cell.textContent));
  await page.locator("table.stacks tbody tr").first().waitFor();
  assert.match(
    await page.locator("table.stacks tbody tr").first().textContent(),
    /temporary/,
    "most temporary blocks first",
  );
  // On a busy machine the program is interrupted, and some blocks live longer than they should.
  const temporary = await cells("temporary");
  assert.ok(
    number(temporary[0]) >= 950 && parseInt(temporary[1], 10) >= 95,
    `${temporary[0]}, ${temporary[1]} of 1,000 are temporary`,
  );
  assert.deepEqual([temporary[2], temporary[4]], ["1,000", "0"]);
  const over = await cells("handed_over");
  assert.equal(over[2], "300");
  assert.equal(over[5], "100 %");
  const waited = await cells("waits_a_while");
  assert.deepEqual([waited[0], waited[2]], ["0", "50"]);
  assert.ok(
    ms(waited[6]) >= 300 && ms(waited[6]) <= 1.01 * took + 20, // the shown figure is rounded
    `${waited[6]}, of a step of ${took} ms`,
  );
  // Usually the class from 100 ms to 1 s, which no temporary block has reached.
  const { classes, rows } = await (await fetch(url + "api/lifetimes")).json();
  const age = classes.findIndex((_, i) =>
    rows.some(
      (row) =>
        row.ages[i] > 0 && ["filled", "waits_a_while"].every((part) => row.stack.some((name) => name.includes(part))),
    ),
  );
  const lived = rows.filter((row) => row.ages[age] > 0).length;
  assert.ok(
    lived > 0 && lived < rows.length,
    `${lived} of ${rows.length} stacks have blocks that lived ${classes[age]}`,
  );
  await page.getByRole("button", { name: classes[age], exact: true }).click();
  await eventually(async () => assert.equal(await page.locator("table.stacks tbody tr").count(), lived));
  assert.equal((await cells("waits_a_while"))[2], "50");
  const link = await openPage(page.url());
  await link.locator("table.stacks tbody tr").filter({ hasText: "waits_a_while" }).first().waitFor();
  await eventually(async () =>
    assert.equal(await link.locator("table.stacks tbody tr").count(), lived, "a link has the chosen age"),
  );
  await closePage(link);
  await page.getByRole("button", { name: "all", exact: true }).click();
  await page.getByLabel("order by").selectOption("mean");
  await eventually(async () =>
    assert.match(await page.locator("table.stacks tbody tr").first().textContent(), /waits_a_while/),
  );
  await page.getByRole("button", { name: "temporary" }).first().click();
  await page.getByText("called by").waitFor();
  await closePage(page);
});

test("the terms have definitions", async () => {
  const page = await openPage(url, { view: "lifetimes" });
  for (const word of ["lifetime", "temporary", "by another thread"]) {
    assert.ok((await page.locator("abbr").filter({ hasText: word }).first().getAttribute("title")).length > 20, word);
  }
  await closePage(page);
});

test("freeing stacks are shown, or the command that records them", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "lifetimes" });
  await page.getByText("The freeing stacks are not recorded").waitFor(); // stated where all blocks are recorded
  await page.getByText(`seemalloc set ${shapes.pid} free_stacks=all`).waitFor();
  await page.getByRole("button", { name: "record from now on" }).click();
  await page.getByText("Recording is on.").waitFor();
  assert.equal(execFileSync(tool, ["get", shapes.pid, "free_stacks"]).toString().trim().split(/\s+/).pop(), "all");
  await shapes.runStep("l");
  const row = (name) => page.locator("table.stacks tbody tr").filter({ hasText: name }).filter({ hasText: "filled" });
  await row("waits_a_while").getByText("freed by main, 50 % of them").waitFor(); // of both rounds
  await row("temporary").getByText("freed by (anonymous namespace)::temporary, 50 % of them").waitFor();
  await checkAccessibility(page, "who frees");
  await page.getByRole("button", { name: "freeing stacks" }).click();
  await page.getByText("Below (freed by): the stacks that freed them.").waitFor();
  await eventually(() => assert.match(page.url(), /kind=deaths/));
  await page.locator("canvas.flame").waitFor();
  const { total, functions } = top(shapes.pid, "--kind", "deaths", "--unit", "objects");
  await page.goto(`${url}#view=functions&kind=deaths&type=freed_objects`);
  await page.waitForFunction(
    (text) => document.querySelector(".total strong")?.textContent === text,
    total.toLocaleString("en"),
  );
  const flat = (name) =>
    page
      .locator("tbody tr")
      .filter({ has: page.getByRole("button", { name, exact: true }) })
      .locator("td")
      .first()
      .textContent();
  for (const name of ["main", "(anonymous namespace)::temporary", "(freed by)"]) {
    assert.equal(
      number(await flat(name)),
      functions.find((one) => one.name === name).flat,
      `${name}: who frees is flat`,
    );
  }
  await page.getByText(/The freeing stack is unknown for [45]\d % of it/).waitFor();
  await page.getByText(`seemalloc set ${shapes.pid} free_stacks=all`).waitFor();
  await checkAccessibility(page, "deaths");
  await closePage(page);
});
