// A Rust program with two leaks: the page names both, first, and without being told where to look.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, end, open, serve, startBrowser, startLeak } from "./harness.mjs";

const LEAKS = ["leak::leaky_cache", "leak::leaky_sessions"];
let url;

before(async () => {
  await startBrowser();
  const leak = await startLeak("64K", "Rust");
  url = await serve(String(leak.pid));
});

after(end);

test("the overview names both leaks of a Rust program", { timeout: 180_000 }, async () => {
  const page = await open(url);
  for (const name of LEAKS) {
    await page.getByRole("listitem").filter({ hasText: new RegExp(`${name}.* grows by`) }).first().waitFor({ timeout: 120_000 });
  }
  await close(page);
});

test("growth suspects of a Rust program are its leaks", { timeout: 180_000 }, async () => {
  const page = await open(url, { view: "growth" });
  const rows = page.getByRole("row").filter({ hasText: "practically certain" });
  // Both leaks are there when each has been seen often enough to be certain.
  for (const name of LEAKS) await rows.filter({ hasText: name }).first().waitFor({ timeout: 150_000 });
  const stacks = await rows.allInnerTexts();
  const first = stacks.slice(0, 2).map((text) => LEAKS.find((name) => text.includes(name)));
  assert.deepEqual(first.sort(), LEAKS, stacks.join("\n\n"));
  for (const text of stacks) assert.ok(LEAKS.some((name) => text.includes(name)), `what does not leak is called certain: ${text}`);
  await close(page);
});
