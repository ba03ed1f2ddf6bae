// Filters in the views that do not show a single profile, folded recursion, and pictures of each view, in a real
// Chromium. A view states which filters it ignores. Against a program with known threads, stacks and blocks.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  bytes,
  checkAccessibility,
  closePage,
  eventually,
  openPage,
  saveFile,
  selectView,
  serve,
  sleep,
  startBrowser,
  TEST_TIMEOUT_MS,
  tearDown,
  top,
} from "./harness.mjs";
import { startShapes } from "./shapes.mjs";

let shapes, url;

before(
  async () => {
    shapes = await startShapes("1");
    await shapes.runStep("t");
    await shapes.runStep("g");
    await shapes.runStep("r");
    url = await serve(shapes.pid);
    await startBrowser();
  },
  { timeout: TEST_TIMEOUT_MS },
);

after(tearDown);

const field = (page, name) => page.getByLabel(name, { exact: true });

async function setFilter(page, name, text) {
  await field(page, name).fill(text);
  await field(page, name).press("Enter");
}

/** Three threads allocate more each time, until there are enough profiles. */
async function untilItGrows(row) {
  await eventually(async () => {
    if ((await row.count()) > 0) return;
    await shapes.runStep("t");
    await sleep(2000);
    throw new Error("nothing grows");
  });
}

/** The bytes that a function holds according to the tool, in the page's notation. */
const held = (name, ...args) => bytes(top(shapes.pid, ...args).functions.find((one) => one.name.endsWith(name)).cum);

test("growth by thread uses profiles that are taken while the view is open", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "growth" });
  await setFilter(page, "thread", "reader");
  await page.getByText("By thread, from profiles that are taken while this view is open").waitFor();
  const row = page.getByRole("row", { name: /holds/ });
  await untilItGrows(row);
  const [reader, writers] = [held("holds", "--thread", "reader"), held("holds", "--thread", "^writer")];
  await row.getByText(reader, { exact: true }).waitFor();
  await page.getByText(/since \d\d:\d\d:\d\d/).waitFor();
  await page.locator("#thread-names option[value='writer 2']").waitFor({ state: "attached" }); // names are suggested
  await checkAccessibility(page, "growth by thread");
  await setFilter(page, "thread", "^writer");
  await row.getByText(writers, { exact: true }).waitFor();
  await setFilter(page, "thread", "nobody");
  await page.getByText("Nothing that passes the filters grows").waitFor();
  // The views of a profile show the same threads.
  await setFilter(page, "thread", "reader");
  await selectView(page, "Who", "Functions");
  await page.waitForFunction(
    (text) => document.querySelector(".total strong")?.textContent === text,
    bytes(top(shapes.pid, "--thread", "reader").total),
  );
  await closePage(page);
});

test("the server validates the patterns of growth and lifetimes", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  for (const view of ["growth", "lifetimes"]) {
    const page = await openPage(url, { view });
    await page
      .getByText(/called by|Growth needs|Nothing grows/)
      .first()
      .waitFor();
    const marked = (name, want) =>
      page.waitForFunction(
        ([name, want]) =>
          [...document.querySelectorAll("label")]
            .find((one) => one.textContent.trim() === name)
            .querySelector("input")
            .getAttribute("aria-invalid") === want,
        [name, want],
      );
    for (const [name, pattern, why] of [
      ["focus", "(", "missing closing ): `(`"],
      ["ignore", "(?=h)", "invalid or unsupported Perl syntax: `(?=`"],
    ]) {
      await setFilter(page, name, pattern);
      await page
        .getByRole("alert")
        .filter({ hasText: `${name}=${pattern}: expected a regular expression: ${why}` })
        .waitFor();
      await marked(name, "true");
      await setFilter(page, name, "");
      await page.getByRole("alert").waitFor({ state: "detached" });
      await marked(name, "false");
    }
    await setFilter(page, "focus", "(?i)HOLDS"); // a syntax that JavaScript's regular expressions do not have
    await page.waitForFunction(() => location.hash.includes("focus=%28%3Fi%29HOLDS"));
    await sleep(300); // for an answer that must not come
    await marked("focus", "false");
    assert.equal(await page.getByRole("alert").count(), 0, view);
    page.errors = page.errors.filter((one) => !one.includes("400")); // caused by the refused requests
    await closePage(page);
  }
});

test("a pattern that is invalid in JavaScript is reported and ignored", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "functions", focus: "(?i)holds" });
  await page
    .getByText(
      "focus=(?i)holds: expected a regular expression, read as JavaScript does: Invalid group. Until it is valid it is ignored.",
    )
    .waitFor();
  await field(page, "focus").fill("HOLDS");
  await page.locator("p.problem").waitFor({ state: "detached" });
  await page.waitForFunction((text) => document.querySelector(".total strong")?.textContent === text, held("holds"));
  await closePage(page);
});

test("direct and indirect recursion is folded in the tree and the flame graph", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "tree", focus: "ping" });
  const names = async () => {
    // A branch with one child opens together with it; the innermost of these has two.
    await page.getByRole("treeitem").filter({ hasText: "ping" }).first().waitFor();
    return page
      .locator(".branch")
      .evaluateAll((all) =>
        all
          .map((one) => one.lastChild.textContent.replace(/^.*::/, "").replace(/\(.*/, "").trim())
          .filter((name) => name === "ping" || name === "pong"),
      );
  };
  await eventually(async () =>
    assert.deepEqual(await names(), ["ping", "pong", "ping", "pong", "ping", "pong", "ping", "pong", "ping"]),
  );
  await page.getByLabel("fold recursion").selectOption("direct");
  await eventually(async () => assert.deepEqual((await names()).length, 9, "none calls itself"));
  await page.getByLabel("fold recursion").selectOption("all");
  await page.waitForFunction(() => document.querySelector(".tree").textContent.split("ping").length === 2);
  await eventually(async () => assert.deepEqual(await names(), ["ping"], "what is between two calls of it goes"));
  const ping = page.locator(".branch").filter({ hasText: "ping" });
  assert.equal((await ping.locator(".amount").textContent()).trim(), held("ping"), "its bytes are counted once");
  await eventually(() => assert.match(page.url(), /folded=all/));
  await checkAccessibility(page, "folded tree");
  await page.getByRole("button", { name: "Flame graph" }).click();
  await page.waitForFunction(() => document.querySelector("canvas.flame")?.height > 60);
  assert.equal(await page.getByLabel("fold recursion").inputValue(), "all");
  const titles = async () =>
    (await saveFile(page, () => page.getByRole("button", { name: "SVG" }).click())).data
      .toString()
      .match(/<title>[^<]*ping[^<]*<\/title>/g);
  await eventually(async () => assert.equal((await titles()).length, 1));
  assert.ok((await titles())[0].includes(`${held("ping")}, `), await titles());
  await page.getByLabel("fold recursion").selectOption("");
  await page.waitForFunction(() => !location.hash.includes("folded"));
  await eventually(async () => assert.equal((await titles()).length, 5));
  await closePage(page);
});

/** Pixels of a saved PNG, by colour, with its size. */
async function pixels(page, { name, data }) {
  assert.match(name, /\.png$/);
  assert.equal(data.subarray(1, 4).toString(), "PNG");
  return page.evaluate(async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const all = context.getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = {};
    for (let i = 0; i < all.length; i += 4) {
      const colour = `${all[i]},${all[i + 1]},${all[i + 2]}`;
      colours[colour] = (colours[colour] ?? 0) + 1;
    }
    return { width: image.width, height: image.height, colours };
  }, data.toString("base64"));
}

test("each chart of the overview is saved as a picture", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "overview" });
  await page.waitForFunction(() => document.querySelectorAll("figure canvas").length === 6);
  await eventually(async () => {
    // it grows with each measurement
    const one = await saveFile(page, () => page.getByRole("button", { name: "PNG of Threads" }).click());
    assert.equal(one.name, "seemalloc.threads.png");
    const threads = await pixels(page, one);
    const box = await page
      .locator("figure")
      .filter({ hasText: /^Threads/ })
      .boundingBox();
    assert.ok(Math.abs(threads.width - 2 * (box.width + 16)) < 8, `${threads.width} px of ${box.width}`);
    assert.ok(threads.colours["13,148,136"] > 100, "its line");
  });
  await eventually(async () => {
    const memory = await pixels(
      page,
      await saveFile(page, () => page.getByRole("button", { name: "PNG of Resident memory, explained" }).click()),
    );
    assert.ok(memory.colours["37,99,235"] > 1000, "live memory");
    assert.ok(memory.colours["255,255,255"] > 1000, "paper");
  });
  await checkAccessibility(page, "overview");
  await closePage(page);
});

test("growth, size classes and lifetimes are saved as SVG and PNG", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const svgOf = async (page) => {
    const { name, data } = await saveFile(page, () => page.getByRole("button", { name: "SVG" }).click());
    const text = data.toString();
    const drawn = await page.evaluate((svg) => {
      const root = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
      return root.querySelector("parsererror")
        ? null
        : {
            texts: [...root.querySelectorAll("text")].map((one) => one.textContent),
            shapes: root.querySelectorAll("rect, polyline").length,
            height: Number(root.getAttribute("height")),
          };
    }, text);
    assert.ok(drawn, "it is XML");
    assert.doesNotMatch(text, /foreignObject|color\(|var\(/, "each viewer knows all of it");
    return { name, ...drawn };
  };
  const sizes = await openPage(url, { view: "sizes", sizeFrom: "1K", sizeTo: "8K" });
  await sizes.getByText("requests since the start").waitFor();
  await sizes.locator("table.sizes tbody tr").first().waitFor();
  const shown = await sizes.getByRole("table", { name: "Size classes" }).locator("tbody tr").count();
  const classes = await svgOf(sizes);
  assert.equal(classes.name, "seemalloc.sizes.svg");
  for (const text of ["size class", "live blocks", "4.00 KiB", "8.00 KiB"])
    assert.ok(classes.texts.includes(text), `${text} of ${classes.texts.slice(0, 40)}`);
  assert.ok(classes.shapes > 3 * shown, "bars and lines");
  await eventually(async () => {
    const png = await pixels(sizes, await saveFile(sizes, () => sizes.getByRole("button", { name: "PNG" }).click()));
    assert.ok(
      png.colours["37,99,235"] > 50 && png.colours["124,58,237"] > 50,
      `bars of live blocks and of requests: ${Object.keys(png.colours).length} colours`,
    );
  });
  await closePage(sizes);
  const growth = await openPage(url, { view: "growth" });
  await untilItGrows(growth.getByRole("row", { name: /holds/ }));
  const grows = await svgOf(growth);
  assert.ok(
    grows.texts.some((text) => text.includes("holds")),
    grows.texts.join(),
  );
  assert.ok(grows.texts.includes("certainty"));
  assert.ok(grows.shapes > 2, "small charts");
  await closePage(growth);
  const lifetimes = await openPage(url, { view: "lifetimes" });
  await lifetimes.locator("table.stacks tbody tr").first().waitFor();
  const lived = await svgOf(lifetimes);
  assert.ok(
    lived.texts.includes("1ms to 10ms") && lived.texts.some((text) => text.includes("holds")),
    lived.texts.join(),
  );
  await closePage(lifetimes);
});

test("the heap map is saved as a picture, and filtered by the pinning stack", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "map" });
  await page.locator("table.parts tbody tr").first().waitFor();
  await eventually(async () => {
    // canvases are drawn after the table
    const map = await pixels(page, await saveFile(page, () => page.getByRole("button", { name: "PNG" }).click()));
    assert.ok(map.colours["37,99,235"] > 1000, "live memory of the regions");
    const { bottom, top: begin } = await page.evaluate(() => ({
      bottom: document.querySelector("canvas.map.parts").getBoundingClientRect().bottom,
      top: document.querySelector("p.total").getBoundingClientRect().top,
    }));
    assert.ok(
      Math.abs(map.height - 2 * (bottom - begin + 16)) < 40,
      `${map.height} px for ${bottom - begin}: from the sum to the spans`,
    );
  });
  const rows = () => page.locator("table.blocks tbody tr").count();
  await eventually(async () => assert.equal(await rows(), 1));
  await setFilter(page, "focus", "KEEPS_LARGE");
  await page.getByText("The filters select the spans and blocks below").waitFor();
  await eventually(async () => {
    // a long table is drawn in pieces
    const whom = await page
      .locator("table.parts tbody tr")
      .evaluateAll((all) => all.map((row) => row.querySelector("[title]")?.title ?? ""));
    assert.ok(
      whom.every((stack) => stack.includes("keeps_large")),
      whom.join(),
    );
  });
  await eventually(async () => assert.equal(await rows(), 1, "64 MiB"));
  await setFilter(page, "focus", "");
  await setFilter(page, "ignore", "keeps_large");
  await page.locator("table.blocks").waitFor({ state: "detached" });
  await setFilter(page, "ignore", "(");
  await page
    .getByRole("alert")
    .filter({ hasText: "ignore=(: expected a regular expression, read as JavaScript does: Unterminated group" })
    .waitFor();
  await eventually(async () => assert.equal(await rows(), 1));
  await closePage(page);
});

test("calls of the trace are filtered by function and by thread", { timeout: TEST_TIMEOUT_MS }, async () => {
  const page = await openPage(url, { view: "kernel", focus: "takes_huge" });
  const trace = page.locator("section.trace");
  await trace.getByText(/Tracing for \d+ s/).waitFor();
  await shapes.runStep("h");
  const rows = trace.locator("table.events tbody tr");
  await rows.filter({ hasText: "mmap" }).first().waitFor();
  const before = await rows.count();
  await setFilter(page, "thread", "shapes");
  await page.waitForFunction(() => /thread=shapes/.test(location.hash));
  await eventually(async () => {
    // while it loads it may show nothing
    const by = await rows.count();
    assert.ok(by >= before, `all by the first thread, and more may have come: ${by} after ${before}`);
  });
  await setFilter(page, "thread", "nobody");
  await rows.first().waitFor({ state: "detached" });
  await setFilter(page, "thread", "");
  await rows.first().waitFor();
  await setFilter(page, "focus", "(");
  await trace.getByRole("alert").filter({ hasText: "focus=(: expected a regular expression" }).waitFor();
  await closePage(page);
});

test("lifetimes are filtered by the allocating thread", { timeout: TEST_TIMEOUT_MS }, async () => {
  await shapes.runStep("t");
  await shapes.runStep("l");
  const page = await openPage(url, { view: "lifetimes" });
  const stacks = page.locator("table.stacks tbody tr");
  const column = (name, cell) =>
    stacks
      .filter({ hasText: name })
      .evaluateAll(
        (rows, cell) => rows.reduce((sum, row) => sum + Number(row.cells[cell].textContent.replaceAll(",", "")), 0),
        cell,
      );
  const [FREED, ALIVE] = [2, 4];
  const lived = (...args) => top(shapes.pid, "--kind", "lifetime", ...args).lifetimes;
  const sum = (rows, what) => rows.reduce((sum, row) => sum + row[what], 0);
  await page.locator("#thread-names option[value='writer 2']").waitFor({ state: "attached" }); // names are suggested
  await page.getByText("The freeing stacks are not recorded").waitFor();
  for (const thread of ["reader", "^writer"]) {
    await setFilter(page, "thread", thread);
    const rows = lived("--thread", thread);
    await page.getByText(`of ${sum(rows, "freed").toLocaleString("en")} freed blocks were`).waitFor();
    await page.getByText(`; ${sum(rows, "alive").toLocaleString("en")} are alive`).waitFor();
    const holds = sum(lived("--thread", thread, "--focus", "holds"), "alive");
    assert.ok(holds >= (thread === "reader" ? 400 : 300), String(holds));
    await eventually(async () => assert.equal(await column("holds", ALIVE), holds, thread)); // some rows are drawn per frame
    assert.equal(await stacks.filter({ hasText: "temporary" }).count(), 0, "another thread's");
    assert.equal(
      await page.getByText("The freeing stacks are not recorded").count(),
      0,
      "nothing is known of it by thread",
    );
  }
  await checkAccessibility(page, "lifetimes by thread");
  await setFilter(page, "thread", "^shapes$");
  await eventually(async () => assert.equal(await column("temporary", FREED), 1000));
  assert.equal(await stacks.filter({ hasText: "holds" }).count(), 0);
  await stacks.filter({ hasText: "temporary" }).getByRole("button").first().click(); // other views show the same rows
  await page.waitForFunction(
    () =>
      /kind=lifetime/.test(location.hash) &&
      /thread=/.test(location.hash) &&
      !document.body.textContent.includes("no row passes"),
  );
  await page.goto(`${url}#view=lifetimes&thread=reader`);
  await stacks.filter({ hasText: "holds" }).getByRole("button", { name: "holds" }).first().click(); // nothing of it was freed
  await page.waitForFunction(
    () => /type=alive_space/.test(location.hash) && !document.body.textContent.includes("no row passes"),
  );
  await page.goto(`${url}#view=lifetimes&filters=1&thread=nobody`);
  await page.getByText("of 0 freed blocks were").waitFor();
  assert.equal(await stacks.count(), 0);
  await setFilter(page, "thread", "(");
  await page
    .getByRole("alert")
    .filter({ hasText: "thread=(: expected a thread's id, or a regular expression" })
    .waitFor();
  page.errors = page.errors.filter((one) => !one.includes("400")); // caused by the refused requests
  await setFilter(page, "thread", "");
  await stacks.filter({ hasText: "holds" }).first().waitFor();
  await page.getByText("The freeing stacks are not recorded").waitFor();
  await closePage(page);
});

test("a view reports ignored filters, and an unsupported filter can be removed", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const page = await openPage(url, { view: "overview", focus: "holds", thread: "reader" });
  await page.getByText("This view ignores focus, thread: it shows the whole process.").waitFor();
  await selectView(page, "Change", "Lifetimes");
  await page
    .getByText("By the thread that allocated the blocks. The freeing stacks are not known by thread.")
    .waitFor();
  assert.equal(await page.getByText("This view ignores").count(), 0);
  await selectView(page, "Heap", "Size classes");
  await page.getByText("This view ignores focus, thread: blocks are counted only by size class.").waitFor();
  await checkAccessibility(page, "what is not heeded");
  await closePage(page);
  const other = await openPage(url, { view: "functions", kind: "heap", labels: "pool=cache" });
  await other.getByText(/Profiles of the kind heap do not tell pool: no row passes\./).waitFor();
  await other.locator("label", { hasText: /^pool/ }).locator("select").selectOption("");
  await other
    .getByRole("row", { name: /holds|filled/ })
    .first()
    .waitFor();
  assert.equal(await other.getByText("no row passes").count(), 0);
  await closePage(other);
});
