// Data kept in a directory, in a real Chromium: the tool and the program are killed, and the page still shows any
// moment of the recorded time.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  checkAccessibility,
  closePage,
  eventually,
  firstLine,
  killAndWait,
  openPage,
  selectView,
  serve,
  sleep,
  start,
  startBrowser,
  startLeak,
  TEST_TIMEOUT_MS,
  tearDown,
  tempDir,
  tool,
} from "./harness.mjs";

const dir = join(tempDir, "history");
let points, url;

async function getJSON(address) {
  return (await fetch(address)).json();
}

before(
  async () => {
    const leak = await startLeak();
    const watcher = start(tool, "web", "--store", dir, String(leak.pid));
    const live = await firstLine(watcher);
    for (points = []; points.length < 12; await sleep(500)) points = await getJSON(live + "api/series?since=0");
    for (let moments = []; moments.length < 8; await sleep(500)) moments = await getJSON(live + "api/moments");
    // The map is stored last of the data that is collected without a viewer.
    while (!(await getJSON(live + "api/state")).stored.map) await sleep(500);
    await startBrowser();
    const page = await openPage(live, { view: "doctor" });
    await page.getByText("Checked values").waitFor();
    await page.getByText(/^live$/).waitFor();
    await closePage(page);
    points = await getJSON(live + "api/series?since=0");
    await killAndWait(watcher);
    await killAndWait(leak);
    url = await serve(dir);
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

test("a folder is shown after the process and the tool have ended", { timeout: TEST_TIMEOUT_MS }, async () => {
  const kept = await getJSON(url + "api/series?since=0");
  assert.deepEqual(kept.slice(0, points.length), points);
  const page = await openPage(url, { view: "overview" });
  await page.getByText(/^stored$/).waitFor();
  await page.getByText(/resident =/).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("figure canvas").length === 6); // one is drawn per frame
  for (const [view, what] of [
    ["functions", /leaky_session/],
    ["growth", /leaky_parser/],
    ["sizes", /KiB/],
    ["kernel", /mmap/],
    ["settings", /purge_delay/],
  ]) {
    await page.goto(`${url}#view=${view}`);
    await page.getByRole("row", { name: what }).first().waitFor();
    assert.equal(await page.locator(".problem").count(), 0, view);
  }
  for (const view of ["flame", "tree", "callers", "doctor"]) {
    await page.goto(`${url}#view=${view}&function=leaky_parser`);
    await page.locator("main section").first().waitFor();
    if (view === "doctor") await page.getByText("Checked values").waitFor();
    assert.equal(await page.locator(".problem").count(), 0, view);
  }
  // No new examination is possible, and no option can be set.
  await page.getByText("State at doctor's last check.").waitFor();
  assert.equal(await page.getByRole("button", { name: "check again" }).count(), 0);
  await page.goto(`${url}#view=settings`);
  await page.getByText("Values of the last query.").waitFor();
  assert.equal(await page.getByText("--allow-set").count(), 0);
  await closePage(page);
});

test("the last profile of each other kind, and the last map, are shown", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { stored, kinds } = await getJSON(url + "api/state");
  assert.ok(stored.map);
  const names = kinds.map((one) => one.name);
  for (const name of ["heap", "peak", "expansion", "fragmentation", "lifetime", "churn", "deaths"])
    assert.ok(names.includes(name), `${name} is not among ${names}`);
  const page = await openPage(url, { view: "functions", kind: "peak" });
  await page
    .getByRole("row", { name: /leaky_session/ })
    .first()
    .waitFor();
  await page.getByLabel(/^profile/).selectOption("churn");
  await page
    .getByRole("row", { name: /steady_work/ })
    .first()
    .waitFor();
  assert.match(await page.locator(".total").textContent(), /, at \d/, "it says of when it is");
  await page.goto(`${url}#view=lifetimes`);
  await page
    .getByRole("row", { name: /steady_work/ })
    .first()
    .waitFor();
  await page.getByText(/ were alive at /).waitFor();
  await checkAccessibility(page, "stored lifetimes");
  await selectView(page, "Heap", "Heap map");
  await page.getByText("A folder has the sums of the regions, as of").waitFor();
  assert.ok(
    (await page
      .locator("canvas.map")
      .first()
      .evaluate((one) => one.height)) > 10,
  );
  await checkAccessibility(page, "stored map");
  await page.goto(`${url}#view=sizes`);
  await page.getByText(/^About .* requests since the start/).waitFor();
  assert.equal(await page.locator(".problem").count(), 0);
  await closePage(page);
});

test("the memory chart is interrupted between two processes", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, null);
  // The same points, with the second half from another process, an hour later.
  const half = Math.floor(points.length / 2);
  const two = points.map((point, i) => (i < half ? point : { ...point, run: point.run + 1, t: point.t + 3_600_000 }));
  /** Pixels of a colour in the middle of the chart, where no process was observed. */
  const between = async (served) => {
    await page.route(/api\/series/, (route) =>
      route.fulfill({ json: new URL(route.request().url()).searchParams.get("since") === "0" ? served : [] }),
    );
    await page.reload();
    await page.getByText(/resident =/).waitFor();
    const canvas = page.locator("figure canvas").first();
    const colouredIn = (from, to) =>
      canvas.evaluate(
        (one, [from, to]) => {
          const [left, right] = [from, to].map((share) => Math.round(share * one.width));
          const { data } = one.getContext("2d").getImageData(left, 0, Math.max(1, right - left), one.height);
          let pixels = 0;
          for (let i = 0; i < data.length; i += 4)
            pixels +=
              data[i + 3] > 0 &&
              Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60;
          return pixels;
        },
        [from, to],
      );
    await eventually(async () => assert.ok((await colouredIn(0, 1)) > 20, "it is not drawn yet"));
    const coloured = await colouredIn(0.5, 0.5);
    await page.unroute(/api\/series/);
    return coloured;
  };
  assert.ok((await between(two.map((point) => ({ ...point, run: 1 })))) > 20, "one process is in one piece");
  assert.equal(await between(two), 0);
  await closePage(page);
});

test("any two moments are compared, and a time range is selected", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions" });
  const compared = page.getByLabel("compared with");
  await compared.locator("option").nth(5).waitFor({ state: "attached" });
  const all = await compared
    .locator("option")
    .evaluateAll((options) => options.map((option) => option.value).filter((id) => id > 0));
  await compared.selectOption(all[0]);
  await page.getByLabel(/^at/).selectOption(all[all.length - 1]);
  await page.getByText("since then").waitFor();
  for (const name of ["leaky_parser", "leaky_session"])
    await page.getByRole("row", { name }).locator("td.increase").first().waitFor();
  const moments = await getJSON(url + "api/moments");
  const [from, until] = [moments[2].t, moments[moments.length - 2].t].map((ms) => 1000 * Math.ceil(ms / 1000));
  // The browser leaves out seconds that are 0.
  const local = (ms) =>
    new Date(ms - 60_000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19).replace(/:00$/, "");
  await page.getByLabel("from", { exact: true }).fill(local(from));
  await page.getByLabel("until", { exact: true }).fill(local(until));
  const within = moments.filter((one) => one.t >= from && one.t <= until).map((one) => String(one.id));
  assert.ok(within.length > 0 && within.length < all.length);
  await page.waitForFunction(
    (count) => document.querySelectorAll("select")[2].options.length === count,
    within.length + 2,
  ); // "nothing" and the chosen one
  await eventually(() => assert.match(page.url(), new RegExp(`from=${from}`), "a link shows the same"));
  await page.goto(`${url}#view=overview&from=${from}&until=${until}`);
  const chosen = await getJSON(`${url}api/series?from=${from}&until=${until}`);
  assert.ok(chosen.length > 0 && chosen.length < points.length);
  await page.getByText(/resident =/).waitFor();
  await checkAccessibility(page, "overview of a time");
  await page.getByRole("button", { name: "whole time" }).click();
  await eventually(() => assert.doesNotMatch(page.url(), /from=/));
  await closePage(page);
});
