// What the user selects in a view of a profile: the colouring and direction of a flame graph, the sample type, sizes,
// lifetimes, a time window, a zoom, branches of the tree. In a real Chromium; the figures equal those of the tools.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  bytes,
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  pprof,
  saveFile,
  serve,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  top,
} from "./harness.mjs";
import { takeLeakProfiles, takeLifetimes } from "./leakprofiles.mjs";

let leak, first, second, lifetimes, files;

before(
  async () => {
    ({ leak, first, second } = await takeLeakProfiles());
    lifetimes = await takeLifetimes(leak);
    files = await serve(first, second);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

/** The titles of a flame graph's SVG, by function. */
async function titles(page, svg) {
  return page.evaluate((text) => {
    const one = new DOMParser().parseFromString(text, "image/svg+xml");
    if (one.querySelector("parsererror")) throw new Error(one.querySelector("parsererror").textContent);
    return [...one.querySelectorAll("g")].map((g) => [
      g.querySelector("title").textContent,
      g.querySelector("rect").getAttribute("fill"),
      Number(g.querySelector("rect").getAttribute("y")),
    ]);
  }, svg.data.toString());
}

test("the flame graph is saved with the figures of top, in both colourings and directions", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(files, { view: "flame", at: 2 });
  const drawn = () => page.waitForFunction(() => document.querySelector("canvas.flame")?.height > 60);
  await drawn();
  const save = () => saveFile(page, () => page.getByRole("button", { name: "SVG" }).click());
  const plain = await save();
  assert.equal(plain.name, "seemalloc.flame.svg");
  const rows = new Map(top(second).functions.map((row) => [row.name, row]));
  const boxes = await titles(page, plain);
  for (const name of ["main", "leaky_parser", "leaky_session"]) {
    assert.ok(
      boxes.some(([title]) => title.startsWith(`${name}: ${bytes(rows.get(name).cum)},`)),
      `${name} in ${boxes.map(([title]) => title)}`,
    );
  }
  assert.equal(await page.getByLabel("colour by").count(), 0, "nothing to compare with");
  const png = await saveFile(page, () => page.getByRole("button", { name: "PNG" }).click());
  assert.equal(png.data.subarray(1, 4).toString(), "PNG");
  await page.getByLabel(/flames/).check();
  await eventually(() => assert.match(page.url(), /flames=1/));
  const place = (all, name) => all.find(([title]) => title.startsWith(`${name}:`))[2];
  assert.ok(place(boxes, "main") < place(boxes, "leaky_parser"));
  await eventually(async () => {
    const flames = await titles(page, await save());
    assert.ok(place(flames, "main") > place(flames, "leaky_parser"));
  });
  await page.getByLabel("compared with").selectOption("1");
  await page.getByText("grown").waitFor();
  const byChange = await eventually(async () => {
    const all = await titles(page, await save());
    assert.match(all.find(([title]) => title.startsWith("leaky_parser:"))[1], /^hsl\(8 /, "it has grown: red");
    return all;
  });
  await page.getByLabel("colour by").selectOption("module");
  await page.getByText("grown").waitFor({ state: "detached" });
  await eventually(async () => {
    const byModule = await titles(page, await save());
    assert.deepEqual(
      byModule.map(([title]) => title),
      byChange.map(([title]) => title),
    );
    assert.notDeepEqual(
      byModule.map(([, fill]) => fill),
      byChange.map(([, fill]) => fill),
    );
  });
  await closePage(page);
});

test("bytes and objects, in use and allocated, equal those of top", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "flame", at: 2 });
  for (const [type, by, unit] of [
    ["inuse_space", "inuse", "bytes"],
    ["inuse_objects", "inuse", "objects"],
    ["alloc_space", "alloc", "bytes"],
    ["alloc_objects", "alloc", "objects"],
  ]) {
    const { total } = top(second, "--by", by, "--unit", unit);
    await page.getByLabel(/^shows /).selectOption(type);
    const text = unit === "bytes" ? bytes(total) : total.toLocaleString("en");
    await page.waitForFunction((want) => document.querySelector(".total strong")?.textContent === want, text);
  }
  await closePage(page);
});

/** The total that `pprof -tagfocus` leaves. */
function focused(file, type, tag) {
  const text = pprof("-top", "-nodefraction=0", "-nodecount=10000", `-sample_index=${type}`, `-tagfocus=${tag}`, file);
  const rows = [...text.matchAll(/^ *(\d+)B? +[\d.]+% +[\d.]+% +\d+B? /gm)];
  assert.ok(rows.length > 0, text);
  return rows.reduce((sum, [, flat]) => sum + Number(flat), 0);
}

const total = (page, want) =>
  page.waitForFunction((text) => document.querySelector(".total strong")?.textContent === text, want);

test("the size filter equals pprof's tagfocus, and is stored in the address", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(files, { view: "functions", at: 2 });
  const all = top(second).total;
  await total(page, bytes(all));
  const small = focused(second, "inuse_space", "bytes=1b:2000b");
  assert.ok(small > 0 && small < all, `${small} of ${all}`);
  await page.getByLabel("size from").fill("1");
  await page.getByLabel("to", { exact: true }).fill("2000");
  await page.keyboard.press("Enter");
  await total(page, bytes(small));
  await eventually(() => assert.match(page.url(), /sizeTo=2000/));
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor({ state: "detached" });
  await page.getByLabel("size from").fill("100K");
  await page.getByLabel("to", { exact: true }).fill("");
  await page.keyboard.press("Enter");
  await total(page, bytes(focused(second, "inuse_space", "bytes=102400b:")));
  await page.getByRole("row", { name: /leaky_session/ }).waitFor({ state: "detached" });
  await page.getByLabel("size from").fill("large");
  await page.keyboard.press("Enter");
  await total(page, bytes(all));
  await eventually(async () => assert.equal(await page.getByLabel("size from").getAttribute("aria-invalid"), "true"));
  const link = await openPage(files, { view: "functions", at: 2, base: 1, sizeTo: "2K" });
  const left = focused(second, "inuse_space", "bytes=:2048b");
  await total(link, bytes(left));
  const since = bytes(left - focused(first, "inuse_space", "bytes=:2048b"), true); // the base is filtered, too
  await eventually(async () => {
    const sum = await link.locator(".total").textContent();
    assert.ok(sum.includes(`, ${since}`), `${sum} has no ${since}`);
  });
  await checkAccessibility(link, "filters");
  await closePage(link);
  await closePage(page);
});

test("lifetime and freeing-thread filters appear if the profile supports them", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(await serve(lifetimes), { view: "functions", type: "freed_space" });
  // The list is empty until the first profile has arrived.
  await page
    .getByLabel("lived")
    .locator("option")
    .filter({ hasText: /^alive$/ })
    .waitFor({ state: "attached" });
  const options = await page
    .getByLabel("lived")
    .locator("option")
    .evaluateAll((all) => all.map((one) => one.value).filter(Boolean));
  assert.ok(options.includes("alive") && options.length >= 3, options.join());
  for (const value of options.filter((one) => one !== "alive")) {
    await page.getByLabel("lived").selectOption(value);
    await total(page, bytes(focused(lifetimes, "freed_space", `lifetime=^${value}$`)));
  }
  await page.getByLabel("freed by").selectOption("same thread");
  await page.getByLabel("lived").selectOption("");
  await total(page, bytes(focused(lifetimes, "freed_space", "freed_by=^same thread$")));
  await closePage(page);
  const heap = await openPage(files, { view: "functions" });
  await heap.getByLabel("size from").waitFor();
  assert.equal(await heap.getByLabel("lived").count(), 0);
  await closePage(heap);
});

test("a time window of a process", { timeout: TEST_TIMEOUT_MS }, async () => {
  const live = await serve(String(leak.pid));
  const page = await openPage(live, { view: "functions", kind: "allocs" });
  await page.getByRole("row", { name: /steady_work/ }).waitFor();
  await page.getByLabel("over").selectOption("2");
  await page.getByText("Profile details").click();
  await page.getByText(/window: changes over ([2-9]|[1-9]\d)\.\d ?s/).waitFor();
  const allocated = async (more) =>
    (await (await fetch(`${live}api/profile?kind=allocs${more}`)).json()).values.reduce(
      (sum, values) => sum + values.at(-1),
      0,
    );
  await eventually(async () => {
    // the program may hardly have run meanwhile
    const window = await allocated("&seconds=2");
    assert.ok(window > 1 << 20, `${window} of ${await allocated("")}`);
    assert.ok(window < (await allocated("")));
  });
  for (const kind of ["peak", "lifetime"])
    assert.match(
      await (await fetch(`${live}api/profile?kind=${kind}&seconds=2`)).text(),
      /cannot be limited to a time window/,
    );
  await page.getByRole("combobox", { name: /^profile/ }).selectOption("lifetime");
  await page.getByLabel("lived").waitFor();
  assert.equal(await page.getByLabel("over", { exact: true }).count(), 0);
  await page.context().close();
});

test("a request of a hidden tab is sent when the tab becomes visible", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(files, { view: "functions", at: 2 });
  await page.locator(".total").waitFor();
  const sum = () => page.locator(".total").textContent();
  const second = await sum();
  await page.evaluate(() => Object.defineProperty(document, "hidden", { configurable: true, get: () => true }));
  await page.evaluate(() => (location.hash = "view=functions&at=1"));
  await page.waitForTimeout(300); // for something that must not appear
  assert.equal(await sum(), second, "it is not shown");
  await page.evaluate(() => delete document.hidden);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.waitForFunction((before) => document.querySelector(".total")?.textContent !== before, second);
  await closePage(page);
});

test("a link shows the same zoom, column and window", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(files, { view: "flame", at: 2 });
  const canvas = page.locator("canvas.flame");
  await page.waitForFunction(() => document.querySelector("canvas.flame")?.height > 60);
  await canvas.focus();
  const whole = page.getByRole("button", { name: "whole picture" });
  assert.ok(await whole.isDisabled(), "all is shown");
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /zoom=/.test(location.hash));
  await eventually(async () => assert.ok(await whole.isEnabled(), "Enter zooms"));
  const detail = await page.locator(".detail").textContent();
  const link = page.url();
  await closePage(page);
  const again = await openPage(link);
  await again.getByText(detail, { exact: true }).waitFor();
  await eventually(async () => assert.ok(await again.getByRole("button", { name: "whole picture" }).isEnabled()));
  await again.getByRole("button", { name: "whole picture" }).click();
  await again.waitForFunction(() => !/zoom=/.test(location.hash));
  await again.goto(`${files}#view=functions&at=2`);
  await again.getByRole("button", { name: "cum" }).click();
  await again.goto(again.url());
  await again.reload();
  await again.locator("th[aria-sort=descending]").filter({ hasText: "cum" }).waitFor();
  await again.goto(`${files}#view=growth&filters=1`);
  await again.getByLabel("window").selectOption("60");
  await again.reload();
  await again.getByLabel("window").waitFor();
  assert.equal(await again.getByLabel("window").inputValue(), "60");
  await closePage(again);
});

test("a term's definition is shown on focus", async () => {
  const page = await openPage(files, { view: "functions", at: 2 });
  const word = page.locator("abbr").first();
  await word.waitFor();
  const says = () => word.evaluate((one) => getComputedStyle(one, "::after").content);
  assert.equal(await says(), "none");
  await page.locator("input").last().focus();
  await page.keyboard.press("Tab"); // by keyboard from here on
  await word.focus();
  assert.equal(await says(), '"What the function allocated itself."');
  await closePage(page);
});

test("the tree is navigated by arrow keys, down to its leaves", async () => {
  const page = await openPage(files, { view: "tree", at: 2, raw: 1 });
  const tree = page.getByRole("tree");
  await tree.waitFor();
  const focused = () => page.evaluate(() => document.activeElement.closest("li")?.getAttribute("aria-expanded"));
  const shown = () => tree.getByRole("treeitem").count();
  const blocks = top(second, "--unit", "objects").total.toLocaleString("en");
  assert.equal(await tree.locator(".branch").first().locator(".blocks").textContent(), blocks);
  await tree.locator(".branch").first().focus();
  const shows = (count, why) => eventually(async () => assert.equal(await shown(), count, why));
  const before = await shown();
  await page.keyboard.press("ArrowLeft");
  await eventually(async () => assert.equal(await focused(), "false"));
  await shows(1);
  await page.keyboard.press("ArrowRight");
  await shows(before);
  let steps = 0;
  for (; (await focused()) !== null && steps < 60; steps++) await page.keyboard.press("ArrowRight");
  assert.ok(steps > 2 && steps < 60, `a leaf after ${steps} steps`);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "true");
  // A link shows the same branches.
  const leak = tree
    .getByRole("treeitem")
    .filter({ hasText: /leaky_parser/ })
    .last();
  if ((await leak.getAttribute("aria-expanded")) === "false") await leak.locator(".branch").first().click();
  const names = () => tree.locator(".branch").allTextContents();
  const opened = await eventually(async () => {
    const all = await names();
    assert.ok(all.length > before, "more than at first");
    return all;
  });
  const link = await openPage(page.url());
  await link.getByRole("tree").waitFor();
  await eventually(async () =>
    assert.deepEqual(await link.getByRole("tree").locator(".branch").allTextContents(), opened),
  );
  await link.getByRole("button", { name: "Flame graph" }).click();
  await link.getByRole("button", { name: "Tree", exact: true }).click();
  await link.getByRole("tree").waitFor();
  await eventually(async () =>
    assert.equal(await link.getByRole("treeitem").count(), opened.length, "and when one comes back to it"),
  );
  await closePage(link);
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await shows(1);
  await page.reload();
  await tree.waitFor();
  await shows(1, "closed is closed");
  await checkAccessibility(page, "tree");
  await closePage(page);
});
