// The pictures of the documentation are made again from a stored history (stored/make) and compared: this detects a
// view that has lost a part or moved. After an intended change:
//
//   NEW_PICTURES=1 SEEMALLOC_OUT=$PWD/out node --test tests/web/pictures.test.mjs
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  closePage,
  eventually,
  openPage,
  root,
  serve,
  sleep,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  tempDir,
} from "./harness.mjs";

const images = join(root, "docs/images");
// Another font changes the whole layout. This one comes with Debian's Chromium, through fontconfig.
const FONT = "DejaVu Sans";
const skip = (() => {
  try {
    const found = execFileSync("fc-match", ["-f", "%{family}", "system-ui"]).toString();
    return found !== FONT && `the pictures are in ${FONT}, and this machine's font is ${found}`;
  } catch (failure) {
    return `which font this machine has is not known: ${failure.message}`;
  }
})();
// Pictures are compared in cells: slightly different letters do not count.
const CELL = 10; // px
const COLOUR_THRESHOLD = 32; // of 255, in any colour
const MAX_DIFFERENCE = 0.02; // of the cells

const VIEWS = {
  overview: [{ view: "overview" }, /resident =/],
  flame: [{ view: "flame" }, /^all:/],
  "flame-change": [{ view: "flame", base: 1 }, /^all:/],
  functions: [{ view: "functions" }, /leaky_parser/],
  graph: [{ view: "graph" }, /^leaky_parser$/],
  growth: [{ view: "growth" }, /leaky_parser/],
  changes: [{ view: "changes", base: 1 }, /leaky_session/],
};

const PAGE_OPTIONS = { locale: "en-US", timezoneId: "UTC", colorScheme: "light", now: "2026-11-24T12:00:00Z" };

let address;

before(async () => {
  const dir = join(tempDir, "history");
  mkdirSync(dir);
  copyFileSync(join(root, "tests/web/stored/history.db"), join(dir, "history.db"));
  address = await serve(dir);
  await startBrowser();
});

after(tearDown);

async function picture(state, text, options = {}) {
  const page = await openPage(address, { filters: 0, ...state }, { ...PAGE_OPTIONS, ...options });
  await page.getByText(text).first().waitFor();
  const image = await stableScreenshot(page);
  await closePage(page);
  return image;
}

/** The page when it has not changed for a second: charts are drawn when all of their points have arrived. */
async function stableScreenshot(page) {
  let image = await page.screenshot();
  for (let same = 0; same < 4; ) {
    await sleep(250);
    const next = await page.screenshot();
    same = next.equals(image) ? same + 1 : 0;
    image = next;
  }
  return image;
}

/** The share of cells that differ; 1 for pictures of different sizes. */
async function differingShare(one, other) {
  const page = await openPage("about:blank");
  const share = await page.evaluate(
    async ([images, cell, different]) => {
      const [a, b] = await Promise.all(
        images.map(async (base64) => {
          const image = new Image();
          image.src = `data:image/png;base64,${base64}`;
          await image.decode();
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.width / cell, image.height / cell];
          const context = canvas.getContext("2d", { willReadFrequently: true });
          context.imageSmoothingQuality = "high";
          context.drawImage(image, 0, 0, canvas.width, canvas.height);
          return context.getImageData(0, 0, canvas.width, canvas.height);
        }),
      );
      if (a.width !== b.width || a.height !== b.height) return 1;
      let differ = 0;
      for (let i = 0; i < a.data.length; i += 4) {
        if ([0, 1, 2].some((colour) => Math.abs(a.data[i + colour] - b.data[i + colour]) > different)) differ++;
      }
      return (4 * differ) / a.data.length;
    },
    [[one, other].map((image) => image.toString("base64")), CELL, COLOUR_THRESHOLD],
  );
  await page.context().close();
  return share;
}

for (const [name, [state, text]] of Object.entries(VIEWS)) {
  test(`the picture of ${name} equals that of the documentation`, { timeout: TEST_TIMEOUT_MS, skip }, async () => {
    const file = join(images, `web-${name}.png`);
    const found = join(root, "build", `web-${name}.png`);
    if (process.env.NEW_PICTURES) writeFileSync(file, await picture(state, text));
    const page = await openPage(address, { filters: 0, ...state }, PAGE_OPTIONS);
    await page.getByText(text).first().waitFor();
    let now;
    try {
      await eventually(async () => {
        // on a busy machine a part may appear after a second without any change
        now = await stableScreenshot(page);
        const share = await differingShare(now, readFileSync(file));
        assert.ok(
          share <= MAX_DIFFERENCE,
          `${(100 * share).toFixed(1)} % of the picture differ from ${file}; as it is now: ${found}`,
        );
      });
    } catch (failure) {
      mkdirSync(join(root, "build"), { recursive: true });
      writeFileSync(found, now);
      throw failure;
    }
    await closePage(page);
  });
}

test("the comparison detects a view without one of its parts", { timeout: TEST_TIMEOUT_MS, skip }, async () => {
  const [state, text] = VIEWS.overview;
  const whole = await eventually(async () => {
    const image = await picture(state, text);
    assert.ok(
      (await differingShare(image, readFileSync(join(images, "web-overview.png")))) <= MAX_DIFFERENCE,
      "not all of it is drawn",
    );
    return image;
  });
  assert.ok(
    (await differingShare(whole, await picture(state, text, { colorScheme: "dark" }))) > MAX_DIFFERENCE,
    "dark for light",
  );
  const page = await openPage(address, { filters: 0, ...state }, PAGE_OPTIONS);
  await page.getByText(text).first().waitFor();
  await stableScreenshot(page);
  await page
    .locator("figure")
    .first()
    .evaluate((figure) => (figure.style.visibility = "hidden"));
  assert.ok((await differingShare(whole, await page.screenshot())) > MAX_DIFFERENCE, "a chart is missing");
  await closePage(page);
});
