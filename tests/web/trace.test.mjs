// The live trace in the view of the kernel, in a real Chromium: its calls, histograms and stacks are those of
// `seemalloc trace` for the same time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
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
  TEST_TIMEOUT_MS,
  tearDown,
  tool,
} from "./harness.mjs";
import { controlCommand, startShapes } from "./shapes.mjs";

let shapes, url;

before(
  async () => {
    shapes = await startShapes("64K");
    url = await serve(shapes.pid);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

function handlesInterrupts(pid) {
  const SIGINT = 1n << 1n;
  return (BigInt(`0x${readFileSync(`/proc/${pid}/status`, "utf8").match(/SigCgt:\s*(\S+)/)[1]}`) & SIGINT) !== 0n;
}

/** The output of `seemalloc trace --json` while an action runs. */
async function traceDuring(what) {
  // It has started when the process knows a reader with the next number.
  const before = Number(await controlCommand(shapes.pid, "trace start"));
  await controlCommand(shapes.pid, `trace stop ${before}`);
  const child = spawn(tool, ["trace", shapes.pid, "--for", "0", "--json"], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  await eventually(() => controlCommand(shapes.pid, `trace read ${before + 1}`));
  await eventually(() => assert.ok(handlesInterrupts(child.pid), "it would only end"));
  await what();
  child.kill("SIGINT"); // it reads once more
  await new Promise((resolve) => child.on("close", resolve));
  const all = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  return { summary: all.at(-1).summary, events: all.slice(0, -1) };
}

test("calls, histograms and stacks equal those of seemalloc trace", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "kernel" });
  const trace = page.locator("section.trace");
  await trace.getByText(/Tracing for \d+ s/).waitFor();
  const { summary, events } = await traceDuring(() => shapes.runStep("h"));
  const want = summary.calls.filter((each) => each.reason === "huge");
  assert.ok(want.length > 0 && want.some((each) => each.bytes >= 200 << 20), JSON.stringify(want));
  const row = (each) =>
    trace
      .locator("table.totals tbody tr")
      .filter({ hasText: each.reason })
      .filter({ has: page.getByRole("button", { name: each.call, exact: true }) });
  for (const each of want) {
    await eventually(async () => {
      // the page polls
      const cells = await row(each)
        .first()
        .evaluate((one) => [...one.cells].map((cell) => cell.textContent));
      assert.deepEqual(cells.slice(0, 5), [
        each.call,
        each.reason,
        String(each.calls),
        bytes(each.bytes),
        String(each.refused),
      ]);
    });
  }
  const mmap = want.find((each) => each.call === "mmap");
  await row(mmap).first().getByRole("button").click();
  for (const [title, buckets] of [
    ["Sizes", mmap.bytes_histogram],
    ["Durations", mmap.ns_histogram],
  ]) {
    const table = trace.locator("table.histogram").filter({ hasText: `${title}: mmap, huge` });
    await table.waitFor();
    assert.deepEqual(
      await table.locator("tbody tr").evaluateAll((rows) => rows.map((one) => Number(one.cells[2].textContent))),
      buckets.map((one) => one.count),
      title,
    );
  }
  const known = events.filter((event) => event.call === "mmap" && event.reason === "huge");
  await eventually(async () =>
    assert.equal(await trace.locator("table.events tbody tr").count(), known.length, "only calls of the chosen kind"),
  );
  await trace.locator("table.events tbody tr").first().getByRole("button").click();
  const frames = await trace.locator("ol.stack li").allTextContents();
  assert.ok(
    frames.some((frame) => frame.includes("takes_huge shapes.cc:")),
    frames.join(),
  );
  assert.deepEqual(
    frames.map((frame) => frame.split(" ")[0]),
    known.at(-1).stack.map((frame) => frame.function.split(" ")[0]),
  );
  await checkAccessibility(page, "trace");
  await closePage(page);
});

test("a stopped trace ends the recording in the process", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "kernel" }, { colorScheme: "dark" });
  const trace = page.locator("section.trace");
  await trace.getByText(/Tracing for \d+ s/).waitFor();
  await shapes.runStep("h");
  await trace.locator("table.events tbody tr").first().waitFor();
  await checkAccessibility(page, "trace, dark");
  await trace.getByRole("button", { name: "stop tracing" }).click();
  await trace.getByText(/Stopped/).waitFor();
  const before = await trace.locator("table.events tbody tr").count();
  await shapes.runStep("h");
  // Readers have numbers: once the page's reader has ended there is none left.
  await eventually(async () => {
    const last = Number(await controlCommand(shapes.pid, "trace start"));
    await controlCommand(shapes.pid, `trace stop ${last}`);
    // One after the other: the page needs connections, too.
    for (let reader = 1; reader <= last; reader++) {
      await assert.rejects(controlCommand(shapes.pid, `trace read ${reader}`), "the trace continues");
    }
    await sleep(1000);
  });
  assert.equal(await trace.locator("table.events tbody tr").count(), before);
  await trace.getByRole("button", { name: "trace", exact: true }).click();
  await trace.getByText(/Tracing for \d+ s/).waitFor();
  await shapes.runStep("h");
  await trace.locator("table.totals tbody tr").first().waitFor();
  for (const word of ["lost", "reason", "place"])
    assert.ok((await trace.locator("abbr").filter({ hasText: word }).first().getAttribute("title")).length > 30, word);
  await closePage(page);
});
