// The CPU profile that the page starts, in a real Chromium: of a program with functions that use known shares of the
// time.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  root,
  serve,
  start,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  tempDir,
  tool,
  waitForSocket,
} from "./harness.mjs";
import { controlCommand } from "./shapes.mjs";

const burn = join(tempDir, "burn");
const lib = join(process.env.SEEMALLOC_OUT ?? join(root, "out"), "lib");
let pid, url;

/** Starts the program, which spends two thirds of its time in burn_two, and waits until it answers. */
async function startBurn(...what) {
  const child = start(tool, "run", "--lib", lib, "--", burn, ...what);
  await waitForSocket(child.pid);
  return String(child.pid);
}

before(
  async () => {
    execFileSync("c++", ["-O1", "-g", join(root, "tests/e2e/testdata/burn.cc"), "-o", burn, "-pthread"]);
    pid = await startBurn("for", "1e9");
    url = await serve("--allow-set", pid);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

const panel = (page) => page.getByRole("region", { name: "Profile of CPU time" });

/** Presses the button; refused requests appear in the console, too. */
async function begin(page, seconds, hz = 100) {
  await panel(page).getByLabel("seconds", { exact: true }).fill(String(seconds));
  await panel(page).getByLabel("samples per second").fill(String(hz));
  await panel(page).getByRole("button", { name: "profile CPU time" }).click();
}

test("a CPU profile is started, followed to its end, and shown in each view", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url);
  await page.getByRole("button", { name: "CPU time by function" }).click();
  await page.getByText("CPU time has not been profiled yet.").waitFor();
  assert.equal(await panel(page).getByLabel("seconds", { exact: true }).inputValue(), "10", "as seemalloc cpu");
  assert.equal(await panel(page).getByLabel("samples per second").inputValue(), "100");
  await checkAccessibility(page, "CPU time, before");
  await begin(page, 15, 200);
  await panel(page)
    .getByText(/^Total [\d.]+ m?s of CPU time in \d+\.\d\d s: [\d,]+ samples/)
    .waitFor();
  assert.equal(await panel(page).getByLabel("seconds", { exact: true }).inputValue(), "15", "what was typed stays");
  // The figures that the process itself reports for the same profile.
  const { functions, total } = JSON.parse(execFileSync(tool, ["top", pid, "--kind", "cpu", "--json", "-n", "0"]));
  const two = functions.find((row) => row.name === "burn_two").cum;
  assert.ok(total > 1e8 && two > total / 3, `burn_two has ${two} of ${total} ns`);
  await page.goto(`${url}#view=functions&kind=cpu`);
  const row = page.getByRole("row").filter({ has: page.getByRole("button", { name: "burn_two", exact: true }) });
  await row.waitFor();
  const share = await row.evaluate((one) => one.cells[3].textContent);
  assert.ok(Math.abs(parseFloat(share) - (100 * two) / total) < 0.6, `${share} of it: ${two} of ${total}`);
  await checkAccessibility(page, "CPU time, functions");
  for (const [view, shows] of [
    ["graph", page.getByText("burn_two", { exact: true })],
    ["callers", page.getByText("called by")],
    ["tree", page.locator(".tree li")],
    ["source", page.getByText("burn_two(double seconds)").first()],
    ["flame", page.locator("canvas.flame")],
    ["changes", page.locator("main section").first()],
  ]) {
    await page.goto(`${url}#view=${view}&kind=cpu&function=burn_two`);
    await shows.first().waitFor();
    assert.equal(await page.locator("main .problem").count(), 0, view);
    await panel(page).waitFor();
  }
  await closePage(page);
});

test("a CPU profile is stopped early, and a second one is refused", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "functions", kind: "cpu" });
  const other = await openPage(url, { view: "functions", kind: "cpu" });
  await panel(other).getByRole("button", { name: "profile CPU time" }).waitFor();
  await begin(page, 3600);
  const stop = panel(page).getByRole("button", { name: "stop now" });
  await stop.waitFor();
  await page.getByRole("progressbar", { name: "CPU profile" }).waitFor();
  await panel(page)
    .getByText(/^[1-9]\d* of 3600 s, 100 samples per second/)
    .waitFor();
  await checkAccessibility(page, "CPU time, while it runs");
  await panel(other).getByRole("button", { name: "stop now" }).waitFor(); // it belongs to the server: all its pages show it
  assert.equal(
    (
      await fetch(`${url}api/cpu`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ for_s: 1, hz: 100 }),
      })
    ).status,
    409,
  );
  await eventually(() =>
    assert.ok(
      JSON.parse(execFileSync(tool, ["top", pid, "--kind", "cpu", "--json"])).total > 0,
      "nothing is seen of the program yet",
    ),
  );
  await stop.click();
  await panel(page)
    .getByText(/^Total .* of CPU time in \d+\.\d\d s/)
    .waitFor();
  await panel(other)
    .getByText(/^Total /)
    .waitFor();
  await closePage(other);
  await closePage(page);
});

test("a profile of another client is shown, but not stopped", { timeout: TEST_TIMEOUT_MS }, async () => {
  const number = await controlCommand(pid, "cpu start 100 3600000");
  const page = await openPage(url, { view: "functions", kind: "cpu" });
  await begin(page, 1);
  await page
    .getByRole("alert")
    .filter({ hasText: "a CPU profile is running already, started elsewhere" })
    .filter({ hasText: "it can only be stopped there" })
    .waitFor();
  assert.equal(await panel(page).getByRole("button", { name: "stop now" }).count(), 0);
  await page.getByRole("button", { name: "burn_two", exact: true }).first().waitFor();
  await checkAccessibility(page, "CPU time, refused");
  assert.ok((await controlCommand(pid, `cpu stop ${number}`)).length > 0, "it has gone on");
  await eventually(() => assert.equal(page.errors.length, 1, page.errors.join("; ")));
  assert.match(page.errors[0], /409/, "the console tells of the refused request");
  page.errors = [];
  await begin(page, 3600);
  await page.getByRole("progressbar").waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await panel(page).getByRole("button", { name: "stop now" }).click();
  await page.getByRole("progressbar").waitFor({ state: "detached" });
  await closePage(page);
});

test("a program that uses SIGPROF is not profiled, and the page reports it", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const handler = await startBurn("handler");
  const SIGPROF = 1n << 26n;
  await eventually(() =>
    assert.ok(
      BigInt(`0x${readFileSync(`/proc/${handler}/status`, "utf8").match(/SigCgt:\s*(\S+)/)[1]}`) & SIGPROF,
      "it does not handle it yet",
    ),
  );
  const page = await openPage(await serve("--allow-set", handler), { view: "functions", kind: "cpu" });
  await begin(page, 1);
  await page.getByRole("alert").filter({ hasText: "the program handles SIGPROF itself" }).waitFor();
  assert.equal(await page.getByRole("progressbar").count(), 0);
  await eventually(() => assert.equal(page.errors.length, 1, page.errors.join("; ")));
  assert.match(page.errors[0], /400/);
  page.errors = [];
  await closePage(page);
});

test("without --allow-set the page only shows the command", { timeout: TEST_TIMEOUT_MS }, async () => {
  const address = await serve(pid);
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage(address, { view: "flame", kind: "cpu" }, { colorScheme });
    await page.getByText(`seemalloc web --allow-set ${pid}`).waitFor();
    assert.equal(await panel(page).count(), 0);
    await checkAccessibility(page, `CPU time, read only, ${colorScheme}`);
    await closePage(page);
  }
  const refused = await fetch(`${address}api/cpu`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ for_s: 1, hz: 100 }),
  });
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /--allow-set/);
});

test("the CPU profile remains after the process has ended", { timeout: TEST_TIMEOUT_MS }, async () => {
  const short = await startBurn("for", "1e9");
  const page = await openPage(await serve("--allow-set", short), { view: "functions", kind: "cpu" });
  await begin(page, 3600);
  await page.getByRole("button", { name: "burn_two", exact: true }).first().waitFor();
  process.kill(Number(short), "SIGKILL");
  await page.getByRole("alert").filter({ hasText: "The process ended before the profile" }).waitFor();
  await page.getByRole("button", { name: "burn_two", exact: true }).first().waitFor();
  await page.context().close(); // its console contains errors of earlier requests
});
