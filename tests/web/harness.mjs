// Common parts of the tests of views: a program that leaks, profiles of it, pages in a real Chromium, and the tools
// whose figures the page is compared with.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const root = new URL("../..", import.meta.url).pathname;
const require = createRequire(join(root, "web/package.json"));
const { chromium } = require("playwright-core");
const { AxeBuilder } = require("@axe-core/playwright");
const out = process.env.SEEMALLOC_OUT ?? join(root, "out");
export const tool = join(out, "bin/seemalloc");
export const tempDir = mkdtempSync(join(tmpdir(), "seemalloc-web-"));
export const program = join(tempDir, "leak");
const children = [];

/** ms for one event: on a busy machine measurements of a process are up to a minute apart (tool/web/watch.go), and some things need eight. */
const EVENT_TIMEOUT_MS = 600_000;

/** ms for a test, so that a test that hangs ends. */
export const TEST_TIMEOUT_MS = 1_800_000;

let browser;

/** The first line that a process prints, or the first that begins with `begin`. */
export function firstLine(child, begin = "") {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
      const line = text
        .split("\n")
        .slice(0, -1)
        .find((one) => one.startsWith(begin));
      if (line !== undefined) resolve(line);
    });
    // After its last output, which may arrive after its end.
    child.on("close", (status) => reject(new Error(`${child.spawnfile} ended: ${status}`)));
  });
}

export function start(...command) {
  return killAtEnd(spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "inherit"] }));
}

/** A process that ends with the tests. */
export function killAtEnd(child) {
  children.push(child);
  return child;
}

/** Kills a process, and waits until it has ended and released its resources. */
export async function killAndWait(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

/** Serves a page of a process or of files; returns its address. */
export async function serve(...args) {
  return (await serveProcess(...args)).address;
}

/** The same; also returns the process, for tests that have to end it. */
export async function serveProcess(...args) {
  const child = start(tool, "web", ...args);
  return { address: await firstLine(child), child };
}

/** Starts `./dev demo leak LANGUAGE`, as after the build: returns the process and the page's address. */
export async function startDemo(language) {
  const demo = killAtEnd(spawn("sh", ["demo/leak", language], { cwd: root, stdio: ["ignore", "pipe", "inherit"] }));
  return { demo, address: await firstLine(demo, "http://") };
}

/** Starts the program that leaks, and waits until it answers. */
export async function startLeak(sample = "64K") {
  execFileSync("c++", ["-O1", "-g", join(root, "demo/leak.cc"), "-o", program]);
  const leak = start(tool, "run", "--sample", sample, "--lib", join(out, "lib"), "--", program);
  await firstLine(leak);
  await waitForSocket(leak.pid);
  return leak;
}

/** Waits until the process answers: its socket is opened concurrently with main. */
export function waitForSocket(pid) {
  return eventually(() =>
    assert.equal(spawnSync(tool, ["get", String(pid), "sample"]).status, 0, "the program cannot be asked"),
  );
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Repeats a check until it passes: for conditions that become true eventually. Throws the last error after PATIENCE. */
export async function eventually(check) {
  for (const end = Date.now() + EVENT_TIMEOUT_MS; ; await sleep(200)) {
    try {
      return await check();
    } catch (failure) {
      if (Date.now() > end) throw failure;
    }
  }
}

export function takeProfile(pid, name, ...args) {
  const file = join(tempDir, name);
  execFileSync(tool, ["profile", String(pid), "-o", file, ...args]);
  return file;
}

export async function startBrowser() {
  browser = await chromium.launch({
    timeout: EVENT_TIMEOUT_MS,
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
}

export async function tearDown() {
  await browser?.close();
  // Running processes could write into the directory while it is removed.
  await Promise.all(children.map(killAndWait));
  rmSync(tempDir, { recursive: true, force: true });
}

/** Opens a page, with the filter bar open; any console message, and each request to another host, is an error of the test (reported by close). now: the time of its clock. */
export async function openPage(address, state, { now, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(EVENT_TIMEOUT_MS);
  const page = await context.newPage();
  if (now) await page.clock.setFixedTime(now);
  page.errors = [];
  page.errorSources = []; // sources of the console messages
  page.on(
    "console",
    (message) =>
      message.type() === "error" && page.errors.push(message.text()) && page.errorSources.push(message.location().url),
  );
  page.on("pageerror", (error) => page.errors.push(error.message));
  page.on("request", (request) => {
    const where = new URL(request.url());
    if (where.protocol.startsWith("http") && where.origin !== new URL(address).origin)
      page.errors.push(`asks for ${request.url()}`);
  });
  const shown = state?.view ? { filters: 1, ...state } : state;
  await page.goto(shown ? `${address}#${new URLSearchParams(shown)}` : address);
  return page;
}

/** Selects a view as a user does: its group, then the view. */
export async function selectView(page, group, view) {
  for (const [row, name] of [
    ["Groups", group],
    ["Views", view],
  ])
    await page.getByRole("navigation", { name: row }).getByRole("button", { name, exact: true }).click();
}

export async function closePage(page) {
  await page.context().close();
  assert.deepEqual(page.errors, [], `${page.errors.join("; ")}; reported by ${page.errorSources.join(", ")}`);
}

export async function checkAccessibility(page, label) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(
    violations.map((one) => `${label}: ${one.id} ${one.nodes.map((node) => node.target).join(" ")}`),
    [],
  );
}

/** The file that a button saves: its name and contents. */
export async function saveFile(page, press) {
  const [download] = await Promise.all([page.waitForEvent("download"), press()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  return { name: download.suggestedFilename(), data: Buffer.concat(chunks) };
}

/** The reference: `go tool pprof`, with all values in bytes. It does not rewrite names: Go 1.25's removes a `_` from each name that is not a C++ name. */
export function pprof(...args) {
  return execFileSync("go", ["tool", "pprof", "-unit=B", "-symbolize=none", ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 1 << 28,
  }).toString();
}

/** `seemalloc top` of a file, or of its difference from another. */
export function top(file, ...args) {
  return JSON.parse(execFileSync(tool, ["top", file, "--json", "-n", "0", ...args], { maxBuffer: 1 << 28 }));
}

/** `seemalloc diff` of two files. */
export function diff(before, after) {
  return JSON.parse(execFileSync(tool, ["diff", before, after, "--json", "-n", "0"]));
}

/** Bytes in the page's notation (web/src/model/format.ts). */
export function bytes(value, change = false) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let size = Math.abs(value);
  let unit = 0;
  for (; size >= 1023.5 && unit < units.length - 1; unit++) size /= 1024;
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : change && value > 0 ? "+" : ""}${size.toFixed(digits)} ${units[unit]}`;
}
