// The user's choices and the resulting page: two moments on a line, functions, sizes, an order; also by keyboard and on
// a phone. Against a program that leaks.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  bytes,
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  serve,
  sleep,
  startBrowser,
  startLeak,
  TEST_TIMEOUT_MS,
  tearDown,
} from "./harness.mjs";

let url;

const json = async (what) => (await fetch(url + "api/" + what)).json();
const urlState = async (page) =>
  Object.fromEntries(new URLSearchParams(await page.evaluate(() => location.hash.slice(1))));

before(
  async () => {
    const leak = await startLeak();
    url = await serve(String(leak.pid));
    await startBrowser();
    while ((await json("moments")).length < 5) await sleep(1000);
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

/** A drag over an element, from one share of its width to another. */
async function drag(page, element, from, to) {
  // Its position once it is stable: content above moves it down while loading.
  const { width, height } = await element.boundingBox();
  await element.hover({ position: { x: from * width, y: height / 2 } });
  const box = await element.boundingBox();
  await page.mouse.down();
  await page.mouse.move(box.x + ((from + to) / 2) * box.width, box.y + box.height / 2);
  await page.mouse.move(box.x + to * box.width, box.y + box.height / 2);
  await page.mouse.up();
}

test("a drag over the time line compares its end with its start", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "changes" });
  const strip = page.locator(".timeline .strip");
  await strip.waitFor();
  await page.locator(".total").waitFor(); // the filters appear with the profile, above the line
  // On a busy machine they are spaced unevenly, and a new one may appear in the middle of a drag: then the drag is
  // repeated.
  const compares = (from, to) =>
    eventually(async () => {
      await page.evaluate(() => (location.hash = "view=changes"));
      await page.getByText("Choose two moments, or two files").waitFor();
      const moments = await json("moments");
      const place = (moment) => (moment.t - moments[0].t) / (moments.at(-1).t - moments[0].t);
      await drag(page, strip, place(from(moments)), place(to(moments)));
      const { base, at } = await urlState(page);
      const [earlier, later] = [from(moments).id, to(moments).id].sort((one, other) => one - other);
      assert.deepEqual(
        [base, at],
        [String(earlier), later === moments.at(-1).id ? undefined : String(later)],
        "the end of the line follows what comes",
      );
      return [earlier, later].map((id) => moments.find((moment) => moment.id === id));
    });
  const [before, after] = await compares(
    (all) => all[0],
    (all) => all[2],
  );
  await page.getByText("since then").waitFor();
  await page
    .getByRole("row", { name: /leaky_(parser|session)/ })
    .first()
    .waitFor();
  await page
    .locator(".timeline .selection")
    .filter({ hasText: `${bytes(after.inuse)} after ${bytes(before.inuse)} in use` })
    .waitFor();
  await compares(
    (all) => all.at(-1),
    (all) => all[1],
  ); // the other way round
  await page.getByText("since then").waitFor();
  await closePage(page);
});

test("the time line works with arrow keys and screen readers", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "flame" });
  const earlier = page.getByRole("slider", { name: "earlier moment" });
  await earlier.waitFor();
  assert.equal(await earlier.getAttribute("aria-valuetext"), "nothing");
  await earlier.press("ArrowRight");
  await page.getByText("since then").waitFor();
  const moments = await json("moments");
  assert.equal(Number((await urlState(page)).base), moments[0].id);
  await eventually(async () => assert.match(await earlier.getAttribute("aria-valuetext"), / in use$/));
  await earlier.press("ArrowRight");
  await page.waitForFunction(
    (id) => Number(new URLSearchParams(location.hash.slice(1)).get("base")) !== id,
    moments[0].id,
  );
  await page.getByRole("slider", { name: "later moment" }).press("Home");
  await page.waitForFunction(
    (id) => Number(new URLSearchParams(location.hash.slice(1)).get("at")) === id,
    moments[0].id,
  );
  await earlier.press("Home");
  await page.waitForFunction(() => !new URLSearchParams(location.hash.slice(1)).has("base"));
  await checkAccessibility(page, "time line");
  await closePage(page);
});

test("a range of the memory chart leads to its changes", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "overview" });
  for (const title of [
    "Resident memory, explained",
    "Allocated per second",
    "Page faults per second",
    "Returned to the OS per second",
    "Threads",
  ])
    await page.getByText(title, { exact: true }).waitFor();
  // The program allocates all the time, and the chart shows how much.
  await page.waitForFunction(() =>
    /^Allocated per second: now allocated (?!0 B)/.test(
      [...document.querySelectorAll("figure [role=img]")]
        .map((one) => one.getAttribute("aria-label"))
        .find((text) => text.startsWith("Allocated")),
    ),
  );
  const sum = await page.locator(".total").textContent();
  await page.waitForFunction(() => document.querySelectorAll("figure canvas").length === 6); // one is drawn per frame
  for (const part of ["live", "cached by threads", "fragmentation", "dirty", "metadata", "not ours"])
    assert.ok(sum.includes(part), `${sum} has no ${part}`);
  // A chart may be rebuilt in the middle of a drag.
  const choose = (from, to, name) =>
    eventually(async () => {
      await drag(page, page.locator("figure").first().locator(".u-over"), from, to);
      await page.getByRole("button", { name }).waitFor({ timeout: 5000 });
      return page.getByRole("button", { name });
    });
  // At first the chart may cover only a few seconds, with a single profile.
  await eventually(async () => {
    await (await choose(0.02, 0.95, "changes in this time")).click();
    const alone = page.getByText("There are fewer than two profiles of this time.");
    await page.getByText("since then").or(alone).first().waitFor();
    if (!(await alone.isVisible())) return;
    await page.getByRole("button", { name: "whole time" }).click();
    assert.fail("one profile");
  });
  await page
    .getByRole("row", { name: /leaky_(parser|session)/ })
    .first()
    .waitFor();
  assert.equal((await urlState(page)).view, "changes");
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll("figure canvas").length === 6);
  await (await choose(0.2, 0.8, "whole time")).click();
  await page.getByRole("group", { name: "Chosen time" }).waitFor({ state: "detached" });
  await closePage(page);
});

test("one click compares with the first profile", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "changes" });
  await page.getByRole("button", { name: "changes since the first profile" }).click();
  await page
    .getByRole("row", { name: /leaky_(parser|session)/ })
    .first()
    .waitFor();
  assert.equal(Number((await urlState(page)).base), (await json("moments"))[0].id);
  await closePage(page);
});

test("growth and lifetimes apply the filters", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "growth" });
  await page
    .getByRole("row", { name: /leaky_parser/ })
    .first()
    .waitFor();
  await page.getByLabel("focus").fill("LEAKY_SESSION");
  await page.getByLabel("focus").press("Enter");
  await page
    .getByRole("row", { name: /leaky_parser/ })
    .first()
    .waitFor({ state: "detached" });
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  // By size and by module: the page shows the figures of the server.
  await page.getByLabel("size from").fill("1G");
  await page.getByLabel("size from").press("Enter");
  await page.getByText("Nothing that passes the filters grows").waitFor();
  await page.getByLabel("size from").fill("512");
  await page.getByLabel("size from").press("Enter");
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  await page.getByLabel("size from").fill("");
  await page.getByLabel("size from").press("Enter");
  assert.ok((await json("choices")).modules.includes("leak"));
  await page.getByLabel("module").selectOption("leak");
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  await eventually(() => assert.match(page.url(), /module=leak/));
  assert.deepEqual(await json("suspects?module=libc.so.6"), []);
  assert.equal((await json("lifetimes?module=none")).rows.length, 0);
  await page.getByRole("button", { name: "Lifetimes" }).click();
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  assert.equal(await page.getByLabel("module").inputValue(), "leak");
  await page.getByText("allocated in, called by").waitFor();
  const rows = () => page.locator("table.stacks tbody tr").evaluateAll((all) => all.map((row) => row.textContent));
  assert.ok(
    (await rows()).every((text) => text.includes("leaky_session")),
    "the filter goes with the view",
  ); // the filter stays with the view
  await page.getByLabel("focus").fill("");
  await page.getByLabel("focus").press("Enter");
  await page.getByLabel("ignore").fill("leaky_");
  await page.getByLabel("ignore").press("Enter");
  await page
    .getByRole("row", { name: /steady_work/ })
    .first()
    .waitFor();
  await eventually(async () => {
    // for a moment the unfiltered rows are shown
    const left = await rows();
    assert.ok(left.length > 0 && left.every((text) => !text.includes("leaky_")), left.join("\n"));
  });
  const { freed, rows: left } = await json("lifetimes?ignore=leaky_&size_from=4096");
  const { freed: all } = await json("lifetimes");
  const sum = (counts) => counts.reduce((one, other) => one + other, 0);
  assert.ok(sum(freed) < sum(all), "sizes choose, too");
  assert.equal(sum(freed), sum(left.map((row) => row.freed)), "the histogram is of the stacks that are shown");
  await closePage(page);
});

test("size classes show internal fragmentation and requests", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "sizes" });
  const table = page.getByRole("table", { name: "Size classes" });
  await page.getByText("requests since the start").waitFor();
  await eventually(async () => {
    // the page has requested before, and requests again
    const requests = await json("requests");
    const most = requests.filter((one) => one.size <= 32768).reduce((a, b) => (b.count > a.count ? b : a));
    assert.ok(most.requested > 0 && most.requested <= 1.001 * most.bytes, JSON.stringify(most));
    const row = table
      .getByRole("row")
      .filter({ has: page.getByRole("cell", { name: bytes(most.size), exact: true }) })
      .first();
    await row.locator(".requests").waitFor();
    assert.ok(await row.locator(".requests").evaluate((bar) => bar.getBoundingClientRect().width > 5), "its bar");
    assert.match(await row.textContent(), new RegExp(`${Math.round(100 * (1 - most.requested / most.bytes))} %`));
    assert.ok(
      requests.some((one) => one.size > 32768),
      "the leaks are large blocks",
    );
  });
  await page.getByRole("table", { name: "Requests of large blocks" }).waitFor();
  await eventually(async () =>
    assert.equal(await table.evaluate((one) => one.scrollWidth - one.clientWidth), 0, "all columns at 1280"),
  );
  await closePage(page);
});

test("a second click on a column reverses the order, and a link keeps it", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions" });
  const values = () =>
    page
      .locator("tbody tr")
      .evaluateAll((rows) =>
        rows.map(
          (row) =>
            parseFloat(row.children[2].textContent) *
            { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }[row.children[2].textContent.split(" ")[1]],
        ),
      );
  const isSorted = (all) => all.every((one, i) => i === 0 || all[i - 1] <= one);
  await page.getByRole("button", { name: "cum" }).click();
  await page.locator('th[aria-sort="descending"]', { hasText: "cum" }).waitFor();
  assert.ok(isSorted((await values()).reverse()));
  await page.getByRole("button", { name: "cum" }).click();
  await page.locator('th[aria-sort="ascending"]', { hasText: "cum" }).waitFor();
  assert.ok(isSorted(await values()));
  assert.equal((await urlState(page)).sort, "-cum");
  await closePage(page);
});

test("the flame graph shows search matches, a tooltip and a legend of origins", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const { id } = (await json("moments")).at(-1);
  const { default: type, stacks, frames, values } = await json(`profile?kind=heap&at=${id}`);
  const found = stacks.reduce(
    (sum, stack, i) => sum + (stack.some((frame) => frames[frame].n === "leaky_session") ? values[i][type] : 0),
    0,
  );
  const page = await openPage(url, { view: "flame", search: "leaky_session", at: id, raw: 1 });
  const canvas = page.locator("canvas.flame");
  await canvas.waitFor();
  await page.getByText(`search: 1 function matches, with ${bytes(found)}, `).waitFor();
  await page.locator(".timeline .strip").waitFor(); // above the picture
  await page.locator(".detail", { hasText: /^leaky_session: / }).waitFor(); // the first match is selected
  const { width } = await canvas.boundingBox();
  await canvas.hover({ position: { x: width / 3, y: 30 } }); // the second row
  const tip = page.locator(".tip");
  await tip.waitFor();
  await eventually(async () =>
    assert.equal(await tip.evaluate((one) => one.firstChild.textContent), await page.locator(".detail").textContent()),
  );
  await canvas.hover({ position: { x: width - 3, y: 30 } });
  await eventually(async () =>
    assert.ok(await tip.evaluate((one) => one.getBoundingClientRect().right <= innerWidth), "it stays on the page"),
  );
  await page.locator(".legend .entry", { hasText: /^program: leak$/ }).waitFor();
  await closePage(page);
});

test("on a phone a tap shows a term's definition within the screen", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "overview" }, { viewport: { width: 390, height: 844 }, hasTouch: true });
  for (const word of ["live", "not ours", "Slow paths per second"]) {
    const abbr = page.locator("abbr", { hasText: new RegExp(`^${word}$`) });
    await abbr.tap();
    const box = await abbr.evaluate((one) => {
      const style = getComputedStyle(one, "::after");
      return {
        text: style.content,
        left: parseFloat(style.left),
        right: parseFloat(style.left) + parseFloat(style.width),
        top: parseFloat(style.top),
        isAbove: one.style.getPropertyValue("--up") !== "0",
      };
    });
    assert.ok(box.text.length > 25, `${word}: ${box.text}`);
    assert.ok(box.left >= 0 && box.right <= 390 && box.top >= 0 && box.top <= 844, `${word}: ${JSON.stringify(box)}`);
    assert.ok(box.isAbove || box.top < 844 - 139, `${word}: room below`);
  }
  await closePage(page);
});

test("on a phone the filter bar is one line, and says what is set", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(
    url,
    { view: "flame", focus: "main", filters: 0 },
    { viewport: { width: 390, height: 844 } },
  );
  await page.locator("canvas.flame").waitFor();
  assert.equal(await page.getByLabel("focus").count(), 0);
  await page.locator(".chip", { hasText: "focus main" }).waitFor();
  assert.ok((await page.locator(".filters").boundingBox()).height < 50, "one line");
  await eventually(async () =>
    assert.ok((await page.locator("canvas.flame").boundingBox()).y < 844, "it is to be seen without scrolling"),
  );
  await page.getByRole("button", { name: "filters" }).click();
  assert.equal(await page.getByLabel("focus").inputValue(), "main");
  await checkAccessibility(page, "phone");
  await closePage(page);
});
