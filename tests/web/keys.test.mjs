// The keys of the page and the command palette, in a real Chromium, with saved profiles.
import assert from "node:assert/strict";
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

const dialog = (page, name) => page.getByRole("dialog", { name });
const focused = (page) => page.evaluate(() => document.activeElement.textContent || document.activeElement.tagName);

test("the palette shows views and actions by name", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions", focus: "leaky_parser", filters: 0 });
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await page.keyboard.press("Control+k");
  const palette = dialog(page, "Commands");
  await palette.waitFor();
  const options = palette.getByRole("option");
  assert.ok((await options.count()) > 16, "all views, and actions");
  await checkAccessibility(page, "palette");
  await page.keyboard.type("graph");
  await eventually(async () => assert.deepEqual(await options.allTextContents(), ["Graph Who", "Flame graph Who"]));
  const selected = () => palette.locator("[aria-selected=true]").textContent();
  assert.equal(await selected(), "Graph Who");
  await page.keyboard.press("ArrowDown");
  await eventually(async () => assert.equal(await selected(), "Flame graph Who"));
  assert.equal(await palette.getByRole("combobox").getAttribute("aria-activedescendant"), "command-1");
  await page.keyboard.press("Enter");
  await page.locator("canvas.flame").waitFor();
  assert.equal(await palette.count(), 0);
  await eventually(() => assert.match(page.url(), /view=flame/));
  // An action.
  await page.keyboard.press(":");
  await palette.waitFor();
  await page.keyboard.type("remove all filters");
  await page.keyboard.press("Enter");
  await eventually(() => assert.doesNotMatch(page.url(), /focus=/));
  assert.equal(await page.locator(".chip").count(), 0);
  // Nothing is found; Escape closes it, and the focus returns.
  await page.getByRole("button", { name: "filters" }).focus();
  await page.keyboard.press(":");
  await palette.waitFor();
  await page.keyboard.type("xyzzy");
  await palette.getByText("No view or action has this name").waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await palette.count(), 1);
  await page.keyboard.press("Escape");
  await palette.waitFor({ state: "detached" });
  assert.match(await focused(page), /filters/);
  await closePage(page);
});

test("keys select groups, focus the search, and move in lists", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "overview" });
  const group = page.getByRole("navigation", { name: "Groups" }).locator("[aria-current]");
  await group.waitFor();
  for (const [key, name] of [
    ["3", "Change"],
    ["4", "Heap"],
    ["5", "System"],
    ["1", "Summary"],
    ["2", "Who"],
  ]) {
    await page.keyboard.press(key);
    await eventually(async () => assert.equal(await group.textContent(), name));
  }
  await page.keyboard.press("9");
  await page.locator("canvas.flame").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("leaky_");
  await eventually(() => assert.match(page.url(), /search=leaky_/));
  // A view without a search: its first filter.
  await page.goto(`${files}#view=tree`);
  await page.getByRole("tree").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("/");
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.activeElement.closest("label")?.textContent.trim()), "focus"),
  );
  // In a list, the arrow keys move from row to row.
  await page.goto(`${files}#view=functions`);
  const links = page.locator("tbody .link");
  await links.nth(2).waitFor();
  const names = (await links.allTextContents()).slice(0, 3);
  await links.first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(page), names[2]);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(page), names[1]);
  await page.keyboard.press("Enter");
  await page.waitForFunction((name) => new URLSearchParams(location.hash.slice(1)).get("function") === name, names[1]);
  await closePage(page);
});

test("an input field keeps its keys", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "functions" });
  const focus = page.getByLabel("focus");
  await focus.waitFor();
  await focus.focus();
  await page.keyboard.type("1/?:");
  await page.keyboard.press("Control+k");
  assert.equal(await focus.inputValue(), "1/?:");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.match(page.url(), /view=functions/);
  await closePage(page);
});

test("the keys are listed", { timeout: TEST_TIMEOUT_MS }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage(files, { view: "tree" }, { colorScheme, viewport: { width: 390, height: 844 } });
    const button = page.getByRole("button", { name: "? keys" });
    await button.click();
    const list = dialog(page, "Keys");
    await list.getByText("Ctrl-K or :").waitFor();
    await checkAccessibility(page, `keys ${colorScheme}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it fits a phone");
    await page.keyboard.press("4"); // not behind a dialog
    await list.getByRole("button", { name: "close" }).click();
    await list.waitFor({ state: "detached" });
    assert.match(page.url(), /view=tree/);
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    await list.waitFor();
    await closePage(page);
  }
});
