// The output of `seemalloc convert` in the viewers of the formats: speedscope itself, and valgrind's page for DHAT.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  closePage,
  openPage,
  root,
  startBrowser,
  startLeak,
  TEST_TIMEOUT_MS,
  takeProfile,
  tearDown,
  tempDir,
  tool,
  top,
} from "./harness.mjs";

const SPEEDSCOPE = join(
  createRequire(join(root, "web/package.json")).resolve("speedscope/package.json"),
  "../dist/release/index.html",
);
const DHAT = ["/usr/libexec/valgrind/dh_view.html", "/usr/lib/valgrind/dh_view.html"].find(existsSync);

const literal = (text) => text.replace(/[^\w]/g, "\\$&");

let profile;

before(async () => {
  const leak = await startLeak("1");
  profile = takeProfile(leak.pid, "leak.pb.gz");
  await startBrowser();
});

after(tearDown);

function converted(to) {
  const file = join(tempDir, `leak.${to}`);
  execFileSync(tool, ["convert", profile, "-o", file]);
  return file;
}

test("speedscope shows the functions", { timeout: TEST_TIMEOUT_MS }, async () => {
  const file = converted("speedscope.json");
  // As speedscope's command line does: a page from a file may not read another file, but it may run a script.
  const script = join(tempDir, "profile.js");
  writeFileSync(
    script,
    `speedscope.loadFileFromBase64("leak.speedscope.json", ${JSON.stringify(readFileSync(file).toString("base64"))})`,
  );
  const page = await openPage(pathToFileURL(SPEEDSCOPE).href, { localProfilePath: script });
  await page.getByText("Sandwich").click();
  const rows = page.locator("tr");
  const { functions } = top(profile);
  await page.getByText(functions[0].name).first().waitFor();
  const text = (await rows.allInnerTexts()).join("\n");
  for (const { name } of functions.slice(0, 3))
    assert.match(text, new RegExp(literal(name)), `${name} is not in ${text}`);
  await closePage(page);
});

test("valgrind's page shows allocated and live bytes by line", {
  timeout: TEST_TIMEOUT_MS,
  skip: !DHAT && "needs valgrind's dh_view.html",
}, async () => {
  const file = converted("dhat.json");
  const page = await openPage(pathToFileURL(DHAT).href);
  await page.setInputFiles("input[type=file]", file);
  const live = top(profile);
  await page
    .getByText(new RegExp(`: ${literal(live.functions[0].name)} \\(`))
    .first()
    .waitFor();
  const text = await page.locator("body").innerText();
  for (const [what, { total }] of [
    ["Total", top(profile, "--by", "alloc")],
    ["At t-end", live],
  ]) {
    assert.match(
      text,
      new RegExp(`${what}: +${total.toLocaleString("en-US")} bytes \\(100%`),
      `${what} is not ${total} in ${text.slice(0, 2000)}`,
    );
  }
  await closePage(page);
});
