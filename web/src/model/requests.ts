// Requests since the start, by size class. Blocks larger than all classes are grouped by powers of two. Pure functions.
import type { Request } from "../answers.ts";

/** Internal fragmentation: the share of the allocated bytes of a class that was not requested. */
export function internalFragmentation(one: Request | undefined): number {
  return one && one.bytes > 0 ? Math.max(0, 1 - one.requested / one.bytes) : 0;
}

/** The blocks above the largest class, grouped by size rounded up to a power of two. */
export function groupLarge(all: Request[], largest: number): Request[] {
  const found = new Map<number, Request>();
  for (const one of all) {
    if (one.size <= largest) continue;
    const size = 2 ** Math.ceil(Math.log2(one.size));
    const row = found.get(size) ?? { size, count: 0, bytes: 0, requested: 0 };
    row.count += one.count;
    row.bytes += one.bytes;
    row.requested += one.requested;
    found.set(size, row);
  }
  return [...found.values()].sort((a, b) => a.size - b.size);
}

export function sumRequests(all: Request[]): Request {
  return all.reduce(
    (sums, one) => ({
      size: 0,
      count: sums.count + one.count,
      bytes: sums.bytes + one.bytes,
      requested: sums.requested + one.requested,
    }),
    { size: 0, count: 0, bytes: 0, requested: 0 },
  );
}
