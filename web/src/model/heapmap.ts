// The heap map: sums of regions, several per cell if there are many, and the parts of some regions. Pure functions.
import type { MapPart, MapRegion, MapSums } from "../answers.ts";
import { bytes, count } from "./format.ts";
import { compilePattern, matchesFilters } from "./stacks.ts";

/** The memory of regions, in bytes. */
export interface RegionSums {
  first: number; // index of the region
  regions: number;
  live: number;
  free: number; // free blocks in spans
  holes: number; // purged holes in spans
  dirty: number; // free pages that have not been purged
  empty: number; // free pages without memory
  huge: number; // regions on huge pages
  spans: number;
  mainBlockSize: number; // block size with the most pages, in the region with the most used pages; 0: large blocks, -1: no spans
}

export function totalBytes(sum: RegionSums): number {
  return sum.live + sum.free + sum.holes + sum.dirty + sum.empty;
}

/** The share of the memory in spans that is not live, without purged holes: 0 to 1. */
export function fragmentation(sum: { live: number; free: number }): number {
  return sum.live + sum.free === 0 ? 0 : sum.free / (sum.live + sum.free);
}

function column(map: MapSums, name: string): number {
  return map.columns.indexOf(name);
}

/** The sums of `each` consecutive regions. */
export function sumRegions(map: MapSums, regionsPerCell: number): RegionSums[] {
  const [huge, spans, used, taken, dirty, lazy, purged, clean, live, free, holes, most] = [
    "huge",
    "spans",
    "used",
    "taken",
    "dirty",
    "lazy",
    "purged",
    "clean",
    "live",
    "free",
    "holes",
    "most",
  ].map((name) => column(map, name)) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const out: RegionSums[] = [];
  for (let first = 0; first < map.regions.length; first += regionsPerCell) {
    const sum: RegionSums = {
      first,
      regions: 0,
      live: 0,
      free: 0,
      holes: 0,
      dirty: 0,
      empty: 0,
      huge: 0,
      spans: 0,
      mainBlockSize: -1,
    };
    let mostUsed = 0;
    for (let i = first; i < Math.min(first + regionsPerCell, map.regions.length); i++) {
      const region = map.regions[i]!;
      sum.regions++;
      sum.live += region[live]!;
      sum.free += region[free]!;
      sum.holes += region[holes]!;
      sum.dirty += (region[dirty]! + region[lazy]! + region[taken]!) * map.page_bytes;
      sum.empty += (region[purged]! + region[clean]!) * map.page_bytes;
      sum.huge += region[huge]!;
      sum.spans += region[spans]!;
      if (region[used]! > mostUsed) {
        mostUsed = region[used]!;
        sum.mainBlockSize = region[most]!;
      }
    }
    out.push(sum);
  }
  return out;
}

export interface Grid {
  regionsPerCell: number; // regions per cell
  columns: number;
  rows: number;
  cellSize: number; // px per cell, including the gap
}

/**
 * The largest cells that fit for this many regions. If they would be too small to see, several regions share a
 * cell.
 */
export function layoutGrid(regions: number, width: number, most: number): Grid {
  const least = 7;
  const largest = 34;
  for (let size = largest; size >= least; size--) {
    const columns = Math.max(1, Math.floor(width / size));
    const rows = Math.ceil(regions / columns);
    if (rows * size <= most) return { regionsPerCell: 1, columns, rows: Math.max(1, rows), cellSize: size };
  }
  const columns = Math.max(1, Math.floor(width / least));
  const rows = Math.max(1, Math.floor(most / least));
  const each = Math.ceil(regions / (columns * rows));
  return { regionsPerCell: each, columns, rows: Math.ceil(Math.ceil(regions / each) / columns), cellSize: least };
}

export function describeSum(map: MapSums, sum: RegionSums): string {
  const address = map.addresses[sum.first] ?? "";
  const what = sum.regions === 1 ? `Region ${address}` : `${count(sum.regions)} regions from ${address}`;
  const mostly =
    sum.mainBlockSize < 0
      ? "no spans"
      : sum.mainBlockSize === 0
        ? "mostly large blocks"
        : `mostly blocks of ${bytes(sum.mainBlockSize)}`;
  const huge = sum.huge === 0 ? "" : sum.regions === 1 ? ", on a huge page" : `, ${count(sum.huge)} on huge pages`;
  return (
    `${what}: live ${bytes(sum.live)}, free in spans ${bytes(sum.free)}, purged in spans ${bytes(sum.holes)}, ` +
    `free pages not purged ${bytes(sum.dirty)}, without memory ${bytes(sum.empty)}; ${count(sum.spans)} spans, ${mostly}${huge}`
  );
}

/** How full a span is, 0 to 1; null for free pages. */
export function occupancy(part: MapPart): number | null {
  if (part.is === "large") return 1;
  if (part.is !== "small" && part.is !== "sampled") return null;
  return (part.live ?? 0) / Math.max(1, part.blocks ?? 1);
}

/** The size to filter by: the block size of a span, or the pages of a large block; null for free pages. */
export function blockSize(part: MapPart, pageBytes: number): number | null {
  if (part.is === "large") return part.pages * pageBytes;
  return occupancy(part) === null ? null : (part.size ?? 0);
}

/** Whether a stack, if known, passes the function filters; undefined if no filter is set. */
export function pinFilter({
  focus,
  ignore,
}: {
  focus: string;
  ignore: string;
}): ((stack: string[] | undefined) => boolean) | undefined {
  const [focusPattern, ignorePattern] = [compilePattern(focus), compilePattern(ignore)];
  return focusPattern || ignorePattern
    ? (stack) => matchesFilters(stack ?? [], focusPattern, ignorePattern)
    : undefined;
}

/** A duration, up to days, in readable form. */
export function formatAge(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.round(minutes / 60)} h`;
}

const FREE_PAGE_TEXTS: Record<string, string> = {
  dirty: "free pages, not purged",
  lazy: "free pages that the kernel may reclaim",
  purged: "free pages that were purged recently",
  clean: "free pages without memory",
  taken: "pages about to be used or returned",
  kept: "a freed large block cached by a thread",
};

export function describePart(part: MapPart, pageBytes: number): string {
  const size = bytes(part.pages * pageBytes);
  if (part.is in FREE_PAGE_TEXTS) return `${size}: ${FREE_PAGE_TEXTS[part.is]}`;
  if (part.is === "large") return `${size}: one large block${pinned(part)}`;
  const full = `${count(part.live ?? 0)} of ${count(part.blocks ?? 0)} blocks of ${bytes(part.size ?? 0)} live`;
  const kind = part.is === "sampled" ? "span of sampled blocks" : `${part.state ?? ""} span`.trim();
  const idle = part.idle_ms === undefined ? "" : `, idle for ${formatAge(part.idle_ms)}`;
  const gone = part.holes ? `, ${bitCount(part.holes)} OS pages purged` : "";
  return `${size}: ${kind}, ${full}${idle}${gone}${pinned(part)}`;
}

function pinned(part: MapPart): string {
  return part.age_ms === undefined && !part.stack
    ? ""
    : `; the oldest sampled block is ${formatAge(part.age_ms ?? 0)} old`;
}

export function bitCount(bits: number): number {
  let n = 0;
  for (let rest = bits >>> 0; rest; rest = (rest & (rest - 1)) >>> 0) n++;
  return n;
}

export function partAt(region: MapRegion, page: number): number {
  return (region.parts ?? []).findIndex((part) => page >= part.page && page < part.page + part.pages);
}
