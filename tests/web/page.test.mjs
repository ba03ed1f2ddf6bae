// The page in a real Chromium, against a program that leaks: every view is opened, clicked and filtered; its figures
// are those of `seemalloc top` for the same profile; unauthorised clients are refused. SHOTS=FOLDER saves a screenshot of
// each view there.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
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
  tempDir,
  tool,
  top,
} from "./harness.mjs";

/** Each view, and the element that is present when all of it is drawn. */
const READY_SELECTORS = {
  overview: "figure:nth-of-type(5) canvas",
  flame: "canvas.flame",
  functions: "tbody tr",
  callers: "canvas.flame",
  tree: "[role=treeitem]",
  graph: ".graph g[role=button]",
  source: "table.source tr",
  changes: "main section button",
  growth: "main section",
  map: "table.parts tbody tr",
  sizes: "table.sizes tbody tr",
  lifetimes: "table.stacks tbody tr",
  kernel: "main table tbody tr",
  doctor: "main details",
  settings: "table.settings tr",
};
const VIEWS = Object.keys(READY_SELECTORS);

let leak, url;

before(
  async () => {
    leak = await startLeak();
    url = await serve("--allow-set", String(leak.pid));
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

test("the overview shows the largest holders and the growth", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "overview" });
  await page.getByText(/resident =/).waitFor();
  await page
    .getByRole("listitem")
    .filter({ hasText: /leaky_parser.* grows by/ })
    .first()
    .waitFor();
  await page
    .getByRole("listitem")
    .filter({ hasText: /leaky_session.* grows by/ })
    .first()
    .waitFor();
  await eventually(async () =>
    assert.equal(
      await page.locator("canvas").count(),
      6,
      "charts of resident memory, allocated bytes, page faults, returned bytes, slow paths and threads",
    ),
  );
  await closePage(page);
});

test("the summary tells which process it is, what it uses of its limit, and what doctor looked at", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "overview" });
  const fact = async (name) =>
    (
      await page
        .locator(".facts > div")
        .filter({ hasText: new RegExp(`^${name}`) })
        .textContent()
    ).slice(name.length);
  const info = await (await fetch(url + "api/process")).json();
  assert.equal(info.host, hostname());
  assert.match(info.command, /leak/);
  await page
    .locator(".identity")
    .filter({ hasText: `pid ${leak.pid} · on ${info.host} · seemalloc ${info.version} · ${info.command}` })
    .waitFor();
  await eventually(async () => assert.match(await fact("Up since"), /\d\d:\d\d:\d\d \d+ (s|min|h)/));
  await eventually(async () =>
    assert.match(await fact("Growth"), /^\+[\d.]+ [KM]iB a minute of resident memory in the last /),
  );
  await eventually(async () =>
    assert.match(await fact("Allocates"), /^[\d.]+ [KM]iB a second about [\d,]+ blocks a second, by the mean size of /),
  );
  await page.getByText(/^Doctor looked at (\d+ of )?\d+ things for \d+\.\d s: (no|\d+) problems? found/).waitFor();
  await closePage(page);
  for (const [pressure, resident, left] of [
    [
      { limit: 2 ** 40, usage: 2 ** 39 },
      /the container uses 512 GiB of 1\.00 TiB, 50 %/,
      /^Limit reached in\d+ (s|min|h|days)\b/,
    ],
    [{ limit: 0, usage: 0 }, /no memory limit is set/, null],
  ]) {
    const limited = await openPage("about:blank");
    await limited.route(/api\/stats/, async (route) => {
      const stats = await (await fetch(route.request().url())).json();
      await route.fulfill({ json: { ...stats, pressure } });
    });
    await limited.goto(`${url}#view=overview`);
    const text = (name) => limited.locator(".facts > div").filter({ hasText: new RegExp(`^${name}`) });
    await text("Resident").filter({ hasText: resident }).waitFor();
    if (left) await text("Limit reached in").filter({ hasText: left }).waitFor();
    else assert.equal(await text("Limit reached in").count(), 0);
    await checkAccessibility(limited, "summary");
    await limited.context().close();
  }
});

test("growth suspects are the two leaks", async () => {
  const page = await openPage(url, { view: "growth" });
  // The more profiles there are, the more certain the result.
  await eventually(async () => {
    const first = await page
      .locator("tbody tr")
      .evaluateAll((rows) => rows.slice(0, 2).map((row) => row.textContent.match(/leaky_\w+/)?.[0]));
    assert.deepEqual(first.sort(), ["leaky_parser", "leaky_session"]);
  });
  await closePage(page);
});

test("a change of the URL's hash during loading is applied", async () => {
  const page = await openPage(url);
  // Before the first frame, and before any code that waits for it.
  await page.addInitScript(() => addEventListener("DOMContentLoaded", () => (location.hash = "#view=sizes")));
  await page.goto("about:blank");
  await page.goto(`${url}#view=settings`);
  await page.getByRole("table", { name: "Size classes" }).waitFor();
  await closePage(page);
});

test("functions equal those of seemalloc top for the same profile", async () => {
  const page = await openPage(url, { view: "functions" });
  const [moment] = (await (await fetch(url + "api/moments")).json()).slice(-1);
  const file = join(tempDir, "moment.pb.gz");
  writeFileSync(
    file,
    Buffer.from(await (await fetch(`${url}api/download?at=${moment.id}&format=proto`)).arrayBuffer()),
  );
  const expected = top(file);
  const stacks = await (await fetch(`${url}api/profile?at=${moment.id}`)).json();
  const index = stacks.types.findIndex((type) => type.name === expected.type);
  assert.equal(
    stacks.values.reduce((sum, values) => sum + values[index], 0),
    expected.total,
  );
  await page.goto(`${url}#view=functions&filters=1&at=${moment.id}`);
  await page.getByRole("button", { name: "flat" }).waitFor();
  const own = expected.functions.filter((row) => row.flat > 0).map((row) => row.name);
  await eventually(async () => {
    // until then it shows the current profile
    const shown = await page
      .locator("tbody tr")
      .evaluateAll((rows) => rows.map((row) => row.querySelector("button").textContent));
    assert.deepEqual(shown.slice(0, own.length), own);
    assert.equal(await page.locator(".total strong").textContent(), bytes(expected.total));
  });
  await page.getByLabel("focus").fill("leaky_session");
  await page.getByRole("row", { name: /steady_work/ }).waitFor({ state: "detached" });
  await eventually(() => assert.match(page.url(), /focus=leaky_session/, "a link shows the same"));
  await page.getByLabel("focus").fill("(");
  await eventually(async () => assert.equal(await page.getByLabel("focus").getAttribute("aria-invalid"), "true"));
  await closePage(page);
});

test("the flame graph is drawn, zooms by keyboard, and links to callers", async () => {
  const page = await openPage(url, { view: "flame" });
  const canvas = page.locator("canvas.flame");
  await canvas.waitFor();
  await page.waitForFunction(() => document.querySelector("canvas.flame").height > 60);
  await eventually(async () => {
    const colours = await canvas.evaluate(
      (one) =>
        new Set(new Uint32Array(one.getContext("2d").getImageData(0, 0, one.width, one.height).data.buffer)).size,
    );
    assert.ok(colours > 5, `${colours} colours`);
  });
  await canvas.focus();
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowDown");
  const whole = page.getByRole("button", { name: "whole picture" });
  assert.ok(await whole.isDisabled(), "all is shown");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /zoom=/.test(location.hash));
  await eventually(async () => assert.ok(await whole.isEnabled(), "Enter zooms"));
  const detail = await page.locator(".detail").textContent();
  assert.doesNotMatch(detail, /^all:/);
  await page.getByRole("button", { name: "callers of it" }).click();
  await page.getByText("called by").waitFor();
  await eventually(() => assert.match(page.url(), /view=callers&function=/));
  await closePage(page);
});

/**
 * Per function: the change in bytes between two moments, summed over the stacks that contain it, from the server's
 * profile.
 */
async function changeOf(names, base, at) {
  const { default: type, frames, ...profile } = await (await fetch(`${url}api/profile?at=${at}&base=${base}`)).json();
  const changeIn = (name) =>
    profile.stacks.reduce((sum, stack, i) => {
      const change = profile.values[i][type] - profile.base[i][type];
      return stack.some((frame) => frames[frame].n === name) ? sum + change : sum;
    }, 0);
  return Object.fromEntries(names.map((name) => [name, changeIn(name)]));
}

test("a comparison with a moment shows the leak", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions", search: "leaky_|steady" });
  await page.getByRole("button", { name: "compare from now on" }).click();
  await page.getByText("since then").waitFor();
  // The live view follows the process: later profiles have more.
  const row = (name) => page.locator("tbody tr").filter({ has: page.getByRole("button", { name, exact: true }) });
  for (const name of ["leaky_parser", "leaky_session"]) await row(name).locator("td.increase").first().waitFor();
  // A profile may be taken in the middle of steady_work, so a moment is chosen whose profile was not.
  const base = Number(new URLSearchParams(new URL(page.url()).hash.slice(1)).get("base"));
  const [at, changes] = await eventually(async () => {
    const { id } = (await (await fetch(`${url}api/moments`)).json()).at(-1);
    const changes = await changeOf(["leaky_parser", "leaky_session", "steady_work"], base, id);
    assert.ok(changes.leaky_parser > 0 && changes.leaky_session > 0, JSON.stringify(changes));
    assert.ok(changes.steady_work <= 0, `steady_work has no memory between its calls: ${JSON.stringify(changes)}`);
    return [id, changes];
  });
  await page.goto(`${url}#view=functions&search=leaky_|steady&base=${base}&at=${at}`);
  for (const name of ["leaky_parser", "leaky_session"]) {
    await eventually(async () =>
      // until then it shows another moment
      assert.equal(await row(name).locator("td").nth(5).textContent(), bytes(changes[name], true), name),
    );
    assert.equal(await row(name).locator("td").nth(5).getAttribute("class"), "increase", name);
  }
  assert.equal(await row("steady_work").locator("td.increase").count(), 0);
  await page.getByRole("button", { name: "Flame graph" }).click();
  await page.locator(".legend", { hasText: "grown" }).waitFor();
  await closePage(page);
});

test("another kind of profile is shown and saved, without a choice of moments", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "functions", kind: "churn", base: "1", at: "1" });
  await page.getByRole("row", { name: "steady_work" }).first().waitFor();
  assert.equal(await page.locator(".problem").count(), 0);
  for (const name of ["at", "compared with"])
    assert.equal(await page.getByLabel(name, { exact: true }).count(), 0, name);
  assert.equal(await page.getByRole("button", { name: "compare from now on" }).count(), 0);
  await page.getByLabel(/^shows/).selectOption("short_objects");
  const download = page.waitForEvent("download");
  await page.getByLabel(/^save as/).selectOption("collapsed");
  const saved = await download;
  assert.equal(saved.suggestedFilename(), "seemalloc.churn.collapsed");
  assert.match(saved.url(), /kind=churn/);
  assert.match(saved.url(), /type=short_objects/);
  await page.goto(`${url}#view=functions&focus=leaky_session`);
  await page.getByText(/in use, at/).waitFor();
  assert.doesNotMatch(await page.locator(".total").textContent(), /±/, "no error is shown for a filtered total");
  await closePage(page);
});

test("settings are changed, and invalid values are rejected with a message", async () => {
  const page = await openPage(url, { view: "settings" });
  await page.getByLabel("purge_delay", { exact: true }).fill("333");
  await page.getByRole("button", { name: "set", exact: true }).click();
  await page.waitForFunction(() => !document.querySelector("form button"));
  assert.equal(
    execFileSync(tool, ["get", String(leak.pid), "purge_delay"])
      .toString()
      .trim()
      .split(/\s+/)
      .pop(),
    "333",
  );
  await page.getByLabel("purge_delay", { exact: true }).fill("soon");
  await page.getByRole("button", { name: "set", exact: true }).click();
  await page.getByText(/soon/).first().waitFor();
  await page.getByRole("button", { name: "return free memory now" }).click();
  await page.getByText(/^[\d.]+ [KMGT]?i?B returned to the OS\.$/).waitFor(); // the message of the purge, not the help of an option
  await eventually(() => assert.equal(page.errors.length, 1, page.errors.join("; ")));
  assert.match(page.errors[0], /400/, "the console reports the refused request");
  page.errors = [];
  await closePage(page);
});

test("every view is complete, accessible, and fits a phone", { timeout: TEST_TIMEOUT_MS }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const view of VIEWS) {
      const page = await openPage(url, { view, function: view === "callers" ? "leaky_parser" : "" }, { colorScheme });
      await page.locator("main section, main table").first().waitFor();
      await page.locator(READY_SELECTORS[view]).first().waitFor();
      await checkAccessibility(page, `${view} ${colorScheme}`);
      if (process.env.SHOTS && colorScheme === "light")
        await page.screenshot({ path: join(process.env.SHOTS, `web-${view}.png`) });
      await page.setViewportSize({ width: 390, height: 800 });
      await page.waitForFunction(() => document.documentElement.clientWidth === 390);
      // Charts are redrawn for the new width, one after the other.
      await eventually(async () => {
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          `${view}: no sideways scrolling on a phone`,
        );
        const cut = await page
          .locator("table.stacked td, table.histogram td, table.source td")
          .evaluateAll((cells) => cells.filter((cell) => cell.getBoundingClientRect().right > innerWidth).length);
        assert.equal(cut, 0, `${view}: cells that are beyond the edge of a phone`);
      });
      await closePage(page);
    }
  }
});

/** Opens a report from its file; any request that it makes is an error of the test. */
async function openReport(file, state) {
  const page = await openPage("file://" + file, state);
  page.requestedURLs = [];
  page.on("request", (request) => /^(data|blob):/.test(request.url()) || page.requestedURLs.push(request.url()));
  await page.reload();
  await page.waitForFunction(() => document.querySelector("h1"));
  return page;
}

async function closeReport(page, file) {
  await page.waitForTimeout(1500); // the live page would have made another request
  assert.deepEqual(
    page.requestedURLs.map((one) => one.replace(/#.*/, "")),
    ["file://" + file],
  );
  await closePage(page);
}

test("a report opens from its file without any request", { timeout: TEST_TIMEOUT_MS }, async () => {
  const file = join(tempDir, "report.html");
  // As many profiles as are needed to tell which functions grow, and one more. On a busy machine they are further
  // apart.
  const profilesIn = (text) =>
    JSON.parse(text.match(/<script type="application\/json" id="report">(.*?)<\/script>/s)[1]).answers.moments.length;
  for (let seconds = 6; seconds < 400; seconds *= 2) {
    assert.equal(
      execFileSync(tool, ["report", String(leak.pid), "--for", `${seconds}s`, "-o", file]).toString(),
      file + "\n",
    );
    if (profilesIn(readFileSync(file, "utf8")) >= 5) break;
  }
  const fromPage = join(tempDir, "downloaded.html");
  while ((await (await fetch(url + "api/moments")).json()).length < 5) await sleep(1000);
  const live = await openPage(url, { view: "settings" });
  const download = live.waitForEvent("download");
  await live.getByRole("link", { name: "Save a report" }).click();
  await (await download).saveAs(fromPage);
  await closePage(live);
  for (const one of [file, fromPage]) {
    const page = await openReport(one, { view: "overview" });
    await page.getByText(/^report of /).waitFor();
    await page.getByText(/resident =/).waitFor();
    await page
      .getByRole("listitem")
      .filter({ hasText: / holds .* of what is in use/ })
      .first()
      .waitFor();
    for (const view of VIEWS.filter((name) => name !== "callers")) {
      await page.goto(`file://${one}#view=${view}`);
      await page.locator("main section, main table").first().waitFor();
      if (view === "functions" || view === "growth")
        await page
          .getByRole("row", { name: /leaky_session/ })
          .first()
          .waitFor();
      if (view === "sizes" || view === "kernel" || view === "settings") await page.locator("tbody tr").nth(3).waitFor();
      if (view === "doctor") await page.getByText("Checked values").waitFor();
      assert.equal(await page.locator(".problem").count(), 0, view);
    }
    await checkAccessibility(page, "report");
    await closeReport(page, one);
  }
  const page = await openReport(file, { view: "source", function: "leaky_session" });
  await page.getByText("a report has no source code and no disassembly").waitFor();
  await page.getByText("no disassembly, no other formats in a report").waitFor();
  assert.equal(await page.getByRole("link").count(), 0, "a report has no dead links");
  await page.goto(`file://${file}#view=functions&filters=1`);
  await page.getByLabel("compared with").locator("option").nth(5).waitFor({ state: "attached" });
  const moments = await page
    .getByLabel("compared with")
    .locator("option")
    .evaluateAll((options) => options.map((option) => option.value));
  assert.ok(moments.length >= 6, `nothing, and the profiles: ${moments}`);
  await page.getByLabel("compared with").selectOption(moments[1]);
  await page.getByText("since then").waitFor();
  await page.getByRole("row", { name: "leaky_parser" }).locator("td.increase").first().waitFor();
  await page.getByLabel(/^profile/).selectOption("expansion");
  await page.locator("tbody tr").first().waitFor();
  await eventually(() => assert.match(page.url(), /kind=expansion/));
  assert.equal(await page.locator(".problem").count(), 0);
  await closeReport(page, file);
});

test("names in a report are not executed", async () => {
  const evil = "</script><script>window.evil=1</script><!--<script>";
  const stacks = join(tempDir, "evil.txt"); // Java's text format, in which a name may contain anything
  writeFileSync(
    stacks,
    `--- heapz 1 ---\nformat = java\nresolution = bytes\n  7048 1 @ 0x3 0x4\n  500 1 @ 0x5 0x4\n` +
      `    0x3 ${evil} (source.java:3)\n    0x4 main (source.java:4)\n    0x5 <img/src=x/onerror=window.evil=1> (source.java:5)\n`,
  );
  const file = join(tempDir, "evil.html");
  execFileSync(tool, ["report", stacks, "-o", file]);
  const page = await openReport(file, { view: "functions" });
  await page.getByRole("row", { name: evil }).waitFor();
  assert.equal(await page.evaluate(() => window.evil), undefined);
  await closeReport(page, file);
});

test("a stopped process is observed again after it continues", { timeout: TEST_TIMEOUT_MS }, async () => {
  const address = await serve("--timeout", "10s", String(leak.pid)); // a busy process answers within that time
  const page = await openPage(address, { view: "overview" });
  await page.getByText(/resident =/).waitFor();
  leak.kill("SIGSTOP");
  await page.getByText("The process does not answer at present").waitFor();
  const points = async () => (await (await fetch(address + "api/series?since=0")).json()).length;
  const before = await points();
  leak.kill("SIGCONT");
  await page.getByText("The process does not answer at present").waitFor({ state: "detached" });
  await eventually(async () => assert.ok((await points()) > before));
  page.errors = page.errors.filter((text) => !/502/.test(text)); // doctor's and other requests to the stopped process
  await closePage(page);
});

test("saved profiles and an ended process are shown", { timeout: TEST_TIMEOUT_MS }, async () => {
  const files = await serve(join(tempDir, "moment.pb.gz"));
  const page = await openPage(files, { view: "functions" });
  await page.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await closePage(page);
  leak.kill("SIGKILL");
  const gone = await openPage(url, { view: "functions" });
  // On a loaded machine measurements are up to a minute apart.
  await gone.getByText("The process no longer answers").waitFor();
  await gone.getByRole("row", { name: /leaky_parser/ }).waitFor();
  await gone.close();
});
