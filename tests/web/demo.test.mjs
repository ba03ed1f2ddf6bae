// `./dev demo leak`: a program with two leaks, in C++ and in Rust; the page names both at the top, without any
// selection.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import {
  closePage,
  eventually,
  openPage,
  selectView,
  startBrowser,
  startDemo,
  TEST_TIMEOUT_MS,
  tearDown,
} from "./harness.mjs";

before(startBrowser);
after(tearDown);

for (const [language, leaks] of [
  ["c++", ["leaky_parser", "leaky_session"]],
  ["rust", ["leak::leaky_cache", "leak::leaky_sessions"]],
]) {
  test(`both leaks of the demonstration in ${language} are named`, { timeout: TEST_TIMEOUT_MS }, async () => {
    const { demo, address } = await startDemo(language);
    const page = await openPage(address);
    for (const name of leaks) {
      await page
        .getByRole("listitem")
        .filter({ hasText: new RegExp(`${name}.* grows by`) })
        .first()
        .waitFor();
    }
    await selectView(page, "Change", "Growth");
    const rows = page.getByRole("row").filter({ hasText: "practically certain" });
    // Both leaks are listed when each has been observed often enough to be certain.
    for (const name of leaks) await rows.filter({ hasText: name }).first().waitFor();
    await eventually(async () => {
      const stacks = await rows.allInnerTexts();
      const first = stacks.slice(0, 2).map((text) => leaks.find((name) => text.includes(name)));
      assert.deepEqual(first.sort(), leaks, stacks.join("\n\n"));
    });
    await closePage(page);
    const ended = once(demo, "exit");
    demo.kill("SIGINT");
    await ended;
  });
}
