import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { ReportAnswers, type ReportData } from "./reportanswers.ts";

const types = [
  { name: "inuse_objects", unit: "objects", what: "" },
  { name: "inuse_space", unit: "bytes", what: "" },
];
const about = { types, default: 1, period: 1, comments: null, errors: [0, 0] };
const REPORT: ReportData = {
  answers: {
    moments: [
      { id: 3, t: 1 },
      { id: 8, t: 2 },
    ],
    series: [{ t: 1 }, { t: 2 }, { t: 3 }],
    "suspects?last=60": ["last minute"],
    stats: {},
  },
  missing: { doctor: "the process has ended" },
  frames: [{ n: "main" }, { n: "gone" }, { n: "stays" }, { n: "new" }],
  stacks: [
    [0, 1],
    [0, 2],
    [0, 3],
  ],
  profiles: {
    "heap 3": {
      ...about,
      t: 1,
      rows: [
        [0, 1, 10],
        [1, 2, 20],
      ],
    },
    "heap 8": {
      ...about,
      t: 2,
      rows: [
        [1, 3, 30],
        [2, 4, 40],
      ],
    },
    "peak 0": { ...about, t: 2, rows: [[0, 5, 50]] },
  },
};

test("profiles equal the server's answers, also in a comparison", () => {
  const report = new ReportAnswers(REPORT);
  const last = report.answer("profile?kind=heap&at=0") as Stacks;
  assert.deepEqual(
    [last.t, last.stacks, last.values, last.base],
    [
      2,
      [
        [0, 2],
        [0, 3],
      ],
      [
        [3, 30],
        [4, 40],
      ],
      undefined,
    ],
  );
  const change = report.answer("profile?kind=heap&at=8&base=3") as Stacks;
  assert.deepEqual(change.stacks, [
    [0, 2],
    [0, 3],
    [0, 1],
  ]);
  assert.deepEqual(change.values, [
    [3, 30],
    [4, 40],
    [0, 0],
  ]);
  assert.deepEqual(change.base, [
    [2, 20],
    [0, 0],
    [1, 10],
  ]);
  assert.deepEqual((report.answer("profile?kind=peak&at=8&base=3") as Stacks).values, [[5, 50]]);
  assert.deepEqual(
    REPORT.profiles["heap 8"]!.rows,
    [
      [1, 3, 30],
      [2, 4, 40],
    ],
    "left as it was",
  );
});

test("equal requests return the same object, and missing data is an error", () => {
  const report = new ReportAnswers(REPORT);
  assert.equal(report.answer("profile?kind=heap&at=0"), report.answer("profile?kind=heap&at=0"));
  assert.deepEqual(report.answer("series?since=1"), [{ t: 2 }, { t: 3 }]);
  assert.deepEqual(report.answer("suspects?last=60"), ["last minute"]);
  assert.throws(() => report.answer("doctor"), /the process has ended/);
  assert.throws(() => report.answer("profile?kind=heap&at=9"), /no profile 9/);
  assert.throws(() => report.answer("profile?kind=churn&at=0"), /no churn profile/);
  assert.throws(() => report.answer("suspects?last=7"), /does not have it/);
});

test("suspects are filtered by function", () => {
  const all = [{ stack: ["make", "parse", "main"] }, { stack: ["make", "serve", "main"] }];
  const report = new ReportAnswers({ ...REPORT, answers: { "suspects?last=0": all } });
  assert.deepEqual(report.answer("suspects?last=0"), all);
  assert.deepEqual(report.answer("suspects?last=0&focus=PARSE"), [all[0]]);
  assert.deepEqual(report.answer("suspects?last=0&focus=main&ignore=%5Eparse"), [all[1]]);
});

test("rows are filtered by thread and summed per stack", () => {
  const threads = {
    ...about,
    t: 2,
    rows: [
      [1, 3, 30],
      [2, 4, 40],
      [1, 5, 50],
    ],
    threads: ["main", "worker"],
    row_threads: [0, 0, 1],
  };
  const report = new ReportAnswers({ ...REPORT, profiles: { ...REPORT.profiles, "threads 0": threads } });
  const of = (query: string) => report.answer(`profile?kind=threads&at=0${query}`) as Stacks;
  assert.deepEqual(
    [of("").stacks, of("").values],
    [
      [
        [0, 2],
        [0, 3],
      ],
      [
        [8, 80],
        [4, 40],
      ],
    ],
  );
  assert.deepEqual(of("").labels, { least: 0, most: 0, texts: { thread: ["main", "worker"] } });
  assert.deepEqual([of("&thread=work").stacks, of("&thread=work").values], [[[0, 2]], [[5, 50]]]);
  assert.deepEqual(of("&thread=%5Emain%24").values, [
    [3, 30],
    [4, 40],
  ]);
  assert.deepEqual(of("&thread=nobody").values, []);
  assert.deepEqual(
    [of("").errors, of("&thread=work").errors],
    [
      [0, 0],
      [null, null],
    ],
    "the error is that of the whole",
  );
  assert.equal((report.answer("profile?kind=heap&at=0") as Stacks).labels, undefined);
  assert.throws(() => report.answer("profile?kind=heap&at=0&thread=work"), /cannot be filtered by thread/);
});

test("rows without a thread appear only without a thread filter", () => {
  const some = {
    ...about,
    t: 2,
    rows: [
      [1, 3, 30],
      [2, 4, 40],
    ],
    threads: ["main"],
    row_threads: [-1, 0],
  };
  const report = new ReportAnswers({ ...REPORT, profiles: { "heap 8": some } });
  assert.deepEqual((report.answer("profile?kind=heap&at=8") as Stacks).values, [
    [3, 30],
    [4, 40],
  ]);
  assert.deepEqual((report.answer("profile?kind=heap&at=8&thread=.") as Stacks).values, [[4, 40]]);
});

test("a thread filter applies to both sides of a comparison", () => {
  const before = {
    ...about,
    t: 1,
    rows: [
      [0, 1, 10],
      [1, 2, 20],
      [1, 7, 70],
    ],
    threads: ["main", "worker"],
    row_threads: [0, 0, 1],
  };
  const now = {
    ...about,
    t: 2,
    rows: [
      [1, 3, 30],
      [1, 5, 50],
    ],
    threads: ["old", "worker"],
    row_threads: [0, 1],
  };
  const report = new ReportAnswers({ ...REPORT, profiles: { "heap 3": before, "heap 8": now } });
  const of = (query: string) => report.answer(`profile?kind=heap&at=8&base=3${query}`) as Stacks;
  assert.deepEqual(
    [of("").stacks, of("").values, of("").base],
    [
      [
        [0, 2],
        [0, 1],
      ],
      [
        [8, 80],
        [0, 0],
      ],
      [
        [9, 90],
        [1, 10],
      ],
    ],
  );
  const worker = of("&thread=worker");
  assert.deepEqual(
    [worker.stacks, worker.values, worker.base, worker.base_errors],
    [[[0, 2]], [[5, 50]], [[7, 70]], [null, null]],
  );
});

test("profiles of different files are compared by their common sample types", () => {
  const before = {
    ...about,
    t: 1,
    types: [types[1]!, { name: "alloc_space", unit: "bytes", what: "" }],
    default: 0,
    errors: [3, 9],
    rows: [
      [0, 10, 99],
      [1, 20, 98],
    ],
  };
  const now = {
    ...about,
    t: 2,
    errors: [1, 4],
    rows: [
      [1, 3, 30],
      [2, 4, 40],
    ],
  };
  const cpu = {
    ...about,
    t: 1,
    types: [{ name: "cpu", unit: "nanoseconds", what: "" }],
    default: 0,
    errors: [0],
    rows: [[0, 7]],
  };
  const report = new ReportAnswers({ ...REPORT, profiles: { "heap 1": before, "heap 2": cpu, "heap 8": now } });
  const change = report.answer("profile?kind=heap&at=8&base=1") as Stacks;
  assert.deepEqual([change.types, change.default, change.errors, change.base_errors], [[types[1]], 0, [4], [3]]);
  assert.deepEqual(
    [change.stacks, change.values, change.base],
    [
      [
        [0, 2],
        [0, 3],
        [0, 1],
      ],
      [[30], [40], [0]],
      [[20], [0], [10]],
    ],
  );
  assert.throws(
    () => report.answer("profile?kind=heap&at=8&base=2"),
    /no sample type in common: one is of inuse_objects in objects, inuse_space in bytes, the other of cpu/,
  );
  assert.deepEqual((report.answer("profile?kind=heap&at=8") as Stacks).values, [
    [3, 30],
    [4, 40],
  ]);
});

test("a report knows whether it has threads, and rejects invalid patterns", () => {
  const threads = {
    ...about,
    t: 2,
    rows: [
      [0, 1, 10],
      [1, 2, 20],
    ],
    threads: ["main", "worker"],
    row_threads: [0, 1],
  };
  const report = new ReportAnswers({ ...REPORT, profiles: { ...REPORT.profiles, "threads 0": threads } });
  assert.deepEqual(
    [report.hasThreads("threads"), report.hasThreads("peak"), report.hasThreads("cpu")],
    [true, false, false],
  );
  assert.deepEqual((report.answer("profile?kind=threads&thread=%5Ework") as Stacks).values, [[2, 20]]);
  assert.throws(
    () => report.answer("profile?kind=heap&at=8&size_from=16"),
    /^Error: size_from=16: the rows of a report do not have that/,
  );
  assert.throws(
    () => new ReportAnswers({ ...REPORT, answers: { "suspects?last=0": [] } }).answer("suspects?last=0&ignore=(%3Fi)w"),
    /^Error: ignore=\(\?i\)w: expected a regular expression, read as JavaScript does: Invalid group/,
  );
  assert.throws(
    () => report.answer("profile?kind=threads&thread=(%3Fi)w"),
    /^Error: thread=\(\?i\)w: expected a regular expression, read as JavaScript does: Invalid group/,
  );
});
