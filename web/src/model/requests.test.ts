import assert from "node:assert/strict";
import test from "node:test";
import { groupLarge, internalFragmentation, sumRequests } from "./requests.ts";

const of = (size: number, count: number, requested: number) => ({ size, count, bytes: size * count, requested });

test("internal fragmentation is the allocated minus the requested bytes", () => {
  assert.equal(internalFragmentation(of(48, 10, 360)), 0.25);
  assert.equal(internalFragmentation(of(48, 0, 0)), 0);
  assert.equal(internalFragmentation(undefined), 0);
  assert.equal(internalFragmentation({ size: 16, count: 1, bytes: 16, requested: 17 }), 0, "an estimate may be off");
});

test("large blocks are grouped by powers of two without loss", () => {
  const all = [
    of(48, 10, 400),
    of(32768, 1, 32768),
    of(40960, 2, 80000),
    of(65536, 1, 60000),
    of(65536 + 8192, 3, 200000),
  ];
  assert.deepEqual(groupLarge(all, 32768), [
    { size: 65536, count: 3, bytes: 2 * 40960 + 65536, requested: 140000 },
    { size: 131072, count: 3, bytes: 3 * 73728, requested: 200000 },
  ]);
  assert.deepEqual(sumRequests(all), {
    size: 0,
    count: 17,
    bytes: 480 + 32768 + 81920 + 65536 + 221184,
    requested: 373168,
  });
});
