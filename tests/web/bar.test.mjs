// The bar of views: its groups, the addresses of views, and views without data. In a real Chromium, with saved profiles.
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

let files;

before(
  async () => {
    const { first, second } = await takeLeakProfiles();
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
