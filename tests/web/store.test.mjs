// What is kept in a folder, in a real Chromium: the tool and the program are killed, and the page still shows it, at any time of it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, close, end, firstLine, folder, open, serve, start, startBrowser, startLeak, tool, wait } from "./harness.mjs";

const dir = join(folder, "history");
let points, url;

async function get(address) {
  return (await fetch(address)).json();
}

before(async () => {
  const leak = await startLeak();
  const watcher = start(tool, "web", "--store", dir, String(leak.pid));
  const live = await firstLine(watcher);
  for (points = []; points.length < 12; await wait(500)) points = await get(live + "api/series?since=0");
  for (let moments = []; moments.length < 8; await wait(500)) moments = await get(live + "api/moments");
  await startBrowser();
  const page = await open(live, { view: "doctor" });
  await page.getByText("What was looked at").waitFor({ timeout: 30_000 });
  await page.getByText(/^live$/).waitFor();
  await close(page);
  points = await get(live + "api/series?since=0");
  watcher.kill("SIGKILL");
  leak.kill("SIGKILL");
  url = await serve(dir);
}, { timeout: 240_000 });

after(end);

test("a folder is shown after the process and its tool are gone", { timeout: 120_000 }, async () => {
  const kept = await get(url + "api/series?since=0");
  assert.deepEqual(kept.slice(0, points.length), points);
  const page = await open(url, { view: "overview" });
  await page.getByText(/^stored$/).waitFor();
  await page.getByText(/resident =/).waitFor();
  assert.equal(await page.locator("figure canvas").count(), 6);
  for (const [view, what] of [["functions", /leaky_session/], ["growth", /leaky_parser/], ["sizes", /KiB/], ["kernel", /mmap/], ["settings", /purge_delay/]]) {
    await page.goto(`${url}#view=${view}`);
    await page.getByRole("row", { name: what }).first().waitFor();
    assert.equal(await page.locator(".problem").count(), 0, view);
  }
  for (const view of ["flame", "tree", "callers", "doctor"]) {
    await page.goto(`${url}#view=${view}&function=leaky_parser`);
    await page.locator("main section").first().waitFor();
    if (view === "doctor") await page.getByText("What was looked at").waitFor();
    assert.equal(await page.locator(".problem").count(), 0, view);
  }
  await close(page);
});

test("the memory of two processes is two pieces", { timeout: 60_000 }, async () => {
  const page = await open(url, null);
  // The same points, those of the second half of another process, an hour later.
  const half = Math.floor(points.length / 2);
  const two = points.map((point, i) => (i < half ? point : { ...point, run: point.run + 1, t: point.t + 3_600_000 }));
  /** Pixels of a colour in the middle of the chart: there nobody was looked at. */
  const between = async (served) => {
    await page.route(/api\/series/, (route) => route.fulfill({ json: new URL(route.request().url()).searchParams.get("since") === "0" ? served : [] }));
    await page.reload();
    await page.getByText(/resident =/).waitFor();
    const canvas = page.locator("figure canvas").first();
    await canvas.waitFor();
    await page.waitForTimeout(300); // it is drawn in the next frame
    const coloured = await canvas.evaluate((one) => {
      const { data } = one.getContext("2d").getImageData(Math.round(one.width / 2), 0, 1, one.height);
      let pixels = 0;
      for (let i = 0; i < data.length; i += 4) pixels += data[i + 3] > 0 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60;
      return pixels;
    });
    await page.unroute(/api\/series/);
    return coloured;
  };
  assert.ok((await between(two.map((point) => ({ ...point, run: 1 })))) > 20, "one process is in one piece");
  assert.equal(await between(two), 0);
  await close(page);
});

test("any two moments are compared, and a time is chosen", { timeout: 120_000 }, async () => {
  const page = await open(url, { view: "functions" });
  const compared = page.getByLabel("compared with");
  await compared.locator("option").nth(5).waitFor({ state: "attached" });
  const all = await compared.locator("option").evaluateAll((options) => options.map((option) => option.value).filter((id) => id > 0));
  await compared.selectOption(all[0]);
  await page.getByLabel(/^at/).selectOption(all[all.length - 1]);
  await page.getByText("since then").waitFor();
  for (const name of ["leaky_parser", "leaky_session"]) await page.getByRole("row", { name }).locator("td.more").first().waitFor();
  const moments = await get(url + "api/moments");
  const [from, until] = [moments[2].t, moments[moments.length - 2].t].map((ms) => 1000 * Math.ceil(ms / 1000));
  const local = (ms) => new Date(ms - 60_000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19);
  await page.getByLabel("from", { exact: true }).fill(local(from));
  await page.getByLabel("until", { exact: true }).fill(local(until));
  const within = moments.filter((one) => one.t >= from && one.t <= until).map((one) => String(one.id));
  assert.ok(within.length > 0 && within.length < all.length);
  await page.waitForFunction((count) => document.querySelectorAll("select")[2].options.length === count, within.length + 2); // "nothing" and the chosen one
  assert.match(page.url(), new RegExp(`from=${from}`), "a link shows the same");
  await page.goto(`${url}#view=overview&from=${from}&until=${until}`);
  const chosen = await get(`${url}api/series?from=${from}&until=${until}`);
  assert.ok(chosen.length > 0 && chosen.length < points.length);
  await page.getByText(/resident =/).waitFor();
  await accessible(page, "overview of a time");
  await page.getByRole("button", { name: "all of the time" }).click();
  assert.doesNotMatch(page.url(), /from=/);
  await close(page);
});
