// The bar of views: its groups, the addresses of views, and views without data; the filter bar. In a real Chromium, with
// saved profiles.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  selectView,
  serve,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
} from "./harness.mjs";
import { takeLeakProfiles } from "./leakprofiles.mjs";

let files, first;

before(
  async () => {
    let second;
    ({ first, second } = await takeLeakProfiles());
    files = await serve(first, second);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

const current = (page, row) => page.getByRole("navigation", { name: row }).locator("[aria-current]").textContent();

test("five groups hold the views, and an address selects the group of its view", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(files);
  const groups = page.getByRole("navigation", { name: "Groups" }).getByRole("button");
  await groups.first().waitFor();
  assert.deepEqual(await groups.allTextContents(), ["Summary", "Who", "Change", "Heap", "System"]);
  assert.equal(await current(page, "Groups"), "Summary");
  for (const [view, group, name] of [
    ["flame", "Who", "Flame graph"],
    ["growth", "Change", "Growth"],
    ["sizes", "Heap", "Size classes"],
    ["settings", "System", "Settings"],
    ["no-such-view", "Summary", "Overview"],
  ]) {
    await page.goto(`${files}#view=${view}`);
    await eventually(async () => assert.equal(await current(page, "Groups"), group, view));
    assert.equal(await current(page, "Views"), name, view);
  }
  // A group opens at the view that was last selected in it.
  await selectView(page, "Who", "Functions");
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await selectView(page, "Change", "Changes");
  await groups.filter({ hasText: "Who" }).click();
  await eventually(async () => assert.equal(await current(page, "Views"), "Functions"));
  await eventually(() => assert.match(page.url(), /view=functions/));
  // The arrow keys move in a row.
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await eventually(async () => assert.equal(await current(page, "Groups"), "Change"));
  await checkAccessibility(page, "groups");
  await closePage(page);
});

test("a view without data is marked, and says why", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "flame" });
  for (const [group, view] of [
    ["Summary", "Doctor"],
    ["Change", "Lifetimes"],
    ["Heap", "Heap map"],
    ["Heap", "Size classes"],
    ["System", "Kernel"],
    ["System", "Settings"],
  ]) {
    await selectView(page, group, view);
    await page.getByText("Saved profiles do not contain this.").waitFor();
    assert.equal(await page.locator("nav .missing", { hasText: view }).count(), 1, view);
  }
  await checkAccessibility(page, "a view without data");
  await closePage(page);
});

test("the filter bar is one line until it is opened, and stays at the top", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", focus: "leaky_parser", at: 1, filters: 0 });
  const bar = page.getByRole("group", { name: "Filter bar" });
  const toggle = bar.getByRole("button", { name: "filters" });
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  assert.ok((await bar.boundingBox()).height < 50, "one line");
  assert.equal(await toggle.getAttribute("aria-expanded"), "false");
  assert.equal(await page.getByLabel("focus").count(), 0);
  await page.evaluate(() => document.querySelector("main").style.setProperty("height", "3000px"));
  await page.mouse.wheel(0, 800);
  await page.waitForFunction(() => scrollY > 200);
  const [header, below] = [await page.locator("header").boundingBox(), await bar.boundingBox()];
  assert.equal(header.y, 0);
  assert.ok(Math.abs(below.y - header.height) < 2, `${below.y} below ${header.height}`);
  await toggle.click();
  await eventually(async () => assert.equal(await toggle.getAttribute("aria-expanded"), "true"));
  assert.equal(await page.getByLabel("focus").inputValue(), "leaky_parser");
  await eventually(() => assert.match(page.url(), /filters=1/, "a link shows the same"));
  await checkAccessibility(page, "open filter bar");
  await closePage(page);
});

test("what is set are chips, which are removed by keyboard", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, {
    view: "functions",
    focus: "leaky_",
    ignore: "session",
    at: 2,
    base: 1,
    filters: 0,
  });
  const chips = page.locator(".chip");
  await chips.nth(3).waitFor();
  await chips.filter({ hasText: "second.pb.gz" }).waitFor(); // the moment by its name, as soon as that is known
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await page.getByRole("button", { name: "remove ignore" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /leaky_session/ }).waitFor();
  assert.equal(await chips.count(), 3);
  assert.match(await page.evaluate(() => document.activeElement.textContent), /filters/, "the focus is not lost");
  // A view that ignores a filter still lets it be removed.
  await selectView(page, "Summary", "Overview");
  await page.getByText("This view ignores focus").waitFor();
  assert.deepEqual(await chips.allTextContents(), ["focus leaky_remove focus×"]);
  await checkAccessibility(page, "chips");
  await selectView(page, "Who", "Functions");
  await page.getByRole("button", { name: "remove all" }).click();
  await page
    .getByRole("row", { name: /steady_work|main/ })
    .first()
    .waitFor();
  assert.equal(await chips.count(), 0);
  await eventually(() => assert.doesNotMatch(page.url(), /focus|base|at=/));
  await closePage(page);
});

test("an empty view says why, and what to do", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", focus: "xyzzy" });
  await page.getByText("Nothing passes the filters (focus).").waitFor();
  await checkAccessibility(page, "nothing passes");
  await page.getByRole("button", { name: "remove them" }).click();
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  for (const [state, text] of [
    ["view=functions&search=xyzzy", "No function matches the search “xyzzy”."],
    ["view=functions&hide=.", "No stack has a function: all are hidden."],
    ["view=changes&at=1&base=1", "Nothing changed between these two moments"],
    ["view=callers&function=xyzzy", "No stack has xyzzy."],
  ]) {
    await page.goto(`${files}#${state}`);
    await page.getByText(text).waitFor();
  }
  const single = await openPage(await serve(first), { view: "growth" });
  await single.getByText("Growth needs 2 profiles of one process, and there is 1: open more of them").waitFor();
  await closePage(single);
  await closePage(page);
});
