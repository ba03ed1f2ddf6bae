// The heap map: the address space with all regions above, and the spans of the selected regions below. A table has the
// same data.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { MapPart, MapRegion, MapSums, State } from "../answers.ts";
import { api, isReport } from "../api.ts";
import { type Chosen, DIRTY, FREE, LARGE, LIVE, STRIP, STRIP_GAP, drawCells, drawStrips, ofClass, stripAt } from "../draw/heapmap.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, clock, count, percent } from "../model/format.ts";
import { type Sum, age, blockSize, describePart, describeSum, fragmentation, grid, occupancy, partAt, pinnedBy, sums, whole } from "../model/heapmap.ts";
import { hasSize, isAllSizes } from "../model/rows.ts";
import { unreadable } from "../model/stacks.ts";
import { type Change, type Shown, useAnswer } from "../state.ts";
import { Path } from "./path.tsx";
import { Pieces } from "./pieces.tsx";
import { SizeRange } from "./rows.tsx";
import { StackFilter } from "./stackfilter.tsx";
import { Word } from "./word.tsx";

const IN_PARTS = 16; // regions
const MOST_HEIGHT = 400; // px of the upper canvas
const MOST_BLOCKS = 100;

function useWidth(): [preact.RefObject<HTMLCanvasElement | null>, number] {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [canvas, width];
}

function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Number of innermost functions of a stack that belong to a standard library. */
type Inner = Record<string, number> | undefined;

/** The stack that pins memory, with links to the callers. */
function Pin({ part, stacks, inner, change }: { part: MapPart | { stack?: string; samples?: number; age_ms?: number }; stacks: Record<string, string[]>; inner: Inner; change: Change }) {
  const stack = part.stack ? stacks[part.stack] : undefined;
  if (!stack) return null;
  return <>{stack.length ? <Path stack={stack} inner={inner?.[part.stack!] ?? 0} change={change} most={4} /> : "(no stack)"} <small>{age(part.age_ms ?? 0)} old{(part.samples ?? 1) > 1 && `, ${count(part.samples! - 1)} more`}</small></>;
}

function Overall({ map, shown, change }: { map: MapSums; shown: Shown; change: Change }) {
  const [canvas, width] = useWidth();
  const [hovered, setHovered] = useState(-1);
  const dark = isDark();
  const shape = useMemo(() => grid(map.regions.length, Math.max(width, 200), MOST_HEIGHT), [map.regions.length, width]);
  const cells = useMemo(() => sums(map, shape.each), [map, shape.each]);
  const at = Math.max(0, map.addresses.indexOf(shown.region));
  const chosen = Math.floor(at / shape.each);
  useEffect(() => {
    if (width > 0) drawCells(canvas.current!, width, cells, shape, chosen, { dark, byClass: shown.paint === "class" });
  }, [cells, shape, width, chosen, dark, shown.paint]);
  const choose = (cell: number) => {
    const sum = cells[Math.min(Math.max(0, cell), cells.length - 1)];
    if (sum) change({ region: map.addresses[sum.first]! });
  };
  const cellAt = (event: MouseEvent) => Math.floor(event.offsetY / shape.size) * shape.columns + Math.floor(event.offsetX / shape.size);
  const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -shape.columns, ArrowDown: shape.columns, Home: -cells.length, End: cells.length };
  const told = cells[hovered] ?? cells[chosen];
  return (
    <>
      <p class="told all" aria-live="polite">{told && describeSum(map, told)}</p>
      <canvas
        ref={canvas}
        class="map all"
        tabIndex={0}
        role="img"
        aria-label={`All ${map.regions.length} regions in ${cells.length} cells. The arrow keys move the selection; the table below has the parts of the selected regions.`}
        onMouseMove={(event) => setHovered(cellAt(event))}
        onMouseLeave={() => setHovered(-1)}
        onClick={(event) => choose(cellAt(event))}
        onKeyDown={(event) => {
          const step = STEPS[event.key];
          if (step === undefined) return;
          choose(chosen + step);
          event.preventDefault();
        }}
      />
    </>
  );
}

/**
 * Whether a span has blocks of the selected sizes and is pinned by the selected functions; undefined without
 * filters.
 */
type Has = ((part: MapPart) => boolean) | undefined;

function Strips({ map, regions, has, stacks, inner, change }: { map: MapSums; regions: MapRegion[]; has: Has; stacks: Record<string, string[]>; inner: Inner; change: Change }) {
  const [canvas, width] = useWidth();
  const [focused, setFocused] = useState<Chosen | null>(null);
  const [hovered, setHovered] = useState<Chosen | null>(null);
  const dark = isDark();
  useEffect(() => {
    if (width > 0) drawStrips(canvas.current!, width, regions, map.os_page_bytes / map.page_bytes, focused, { dark, byClass: true, has });
  }, [regions, width, focused, dark, has]);
  const place = (event: MouseEvent): Chosen | null => {
    const { region, page } = stripAt(event.offsetX, event.offsetY, width);
    return regions[region] ? { region, part: partAt(regions[region]!, page) } : null;
  };
  const move = (event: KeyboardEvent) => {
    const now = focused ?? { region: 0, part: -1 };
    const parts = regions[now.region]?.parts ?? [];
    const page = parts[now.part]?.page ?? 0;
    let next: Chosen | null = null;
    if (event.key === "ArrowRight") next = { region: now.region, part: Math.min(now.part + 1, parts.length - 1) };
    else if (event.key === "ArrowLeft") next = { region: now.region, part: Math.max(now.part - 1, 0) };
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const region = Math.min(Math.max(0, now.region + (event.key === "ArrowDown" ? 1 : -1)), regions.length - 1);
      next = { region, part: regions[region] ? partAt(regions[region]!, page) : -1 };
    }
    if (!next) return;
    setFocused(next);
    event.preventDefault();
  };
  const told = hovered ?? focused;
  const region = told && regions[told.region];
  const part = told && region?.parts?.[told.part];
  return (
    <>
      <p class="told part" aria-live="polite">
        {part ? <>{region!.region} + {bytes(part.page * map.page_bytes)}, {describePart(part, map.page_bytes)} <Pin part={part} stacks={stacks} inner={inner} change={change} /></>
          : "Point at a span, or move to it with the arrow keys, for its size class, how full it is, how long it has been idle, and the stack that pins it."}
      </p>
      <canvas
        ref={canvas}
        class="map parts"
        tabIndex={0}
        role="img"
        aria-label={`The spans of ${regions.length} regions. Left and right move between spans, up and down between regions; the table below has the same data.`}
        height={IN_PARTS * (STRIP + STRIP_GAP)}
        onMouseMove={(event) => setHovered(place(event))}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => setFocused(place(event))}
        onKeyDown={move}
      />
    </>
  );
}

function Table({ map, region, has, stacks, inner, change }: { map: MapSums; region: MapRegion; has: Has; stacks: Record<string, string[]>; inner: Inner; change: Change }) {
  const parts = useMemo(() => (region.parts ?? []).filter(has ?? (() => true)), [region, has, stacks]);
  return (
    <table class="figures parts stacked" style={{ "--columns": 4 }}>
      <caption>{region.region}{region.huge ? ", on a huge page" : ""}</caption>
      <thead><tr><th scope="col">page</th><th scope="col">bytes</th><th scope="col" class="name"><Word name="what" /></th><th scope="col"><Word name="size class" /></th><th scope="col"><Word name="live blocks">live</Word></th><th scope="col">of</th><th scope="col">full</th><th scope="col"><Word name="idle for" /></th><th scope="col"><Word name="pinned by" /></th></tr></thead>
      <tbody>
        <Pieces rows={parts} piece={64} each={(part) => {
          const full = occupancy(part);
          return (
            <tr key={part.page}>
              <td>{part.page}</td><td>{bytes(part.pages * map.page_bytes)}</td><td class="name">{part.is} {part.state}</td>
              <td>{part.size && <span class="swatch" style={{ background: ofClass(part.size, isDark()) }} />} {part.size && bytes(part.size)}</td>
              <td>{part.blocks && count(part.live ?? 0)}</td><td>{part.blocks && count(part.blocks)}</td><td>{full === null ? "" : percent(full, 1) || "0 %"}</td>
              <td>{part.idle_ms === undefined ? "" : age(part.idle_ms)}</td><td class="name"><Pin part={part} stacks={stacks} inner={inner} change={change} /></td>
            </tr>
          );
        }} />
      </tbody>
    </table>
  );
}

function Blocks({ map, shown, change }: { map: MapSums; shown: Shown; change: Change }) {
  const isPinned = pinnedBy(shown) ?? (() => true);
  const blocks = (map.blocks ?? []).filter((block) => hasSize(shown, block.bytes) && isPinned(block.stack ? map.stacks[block.stack] : undefined)).sort((a, b) => b.bytes - a.bytes);
  if (blocks.length === 0) return null;
  return (
    <table class="figures blocks stacked" style={{ "--columns": 3 }}>
      <caption>Blocks above 1 MiB, with mappings of their own</caption>
      <thead><tr><th scope="col">address</th><th scope="col">bytes</th><th scope="col">room to grow</th><th scope="col">allocated in, called by …</th></tr></thead>
      <tbody>
        {blocks.slice(0, MOST_BLOCKS).map((block) => (
          <tr key={block.block}><td>{block.block}</td><td>{bytes(block.bytes)}</td><td>{bytes(block.room)}</td><td class="name"><Pin part={block} stacks={map.stacks} inner={map.inner} change={change} /></td></tr>
        ))}
      </tbody>
    </table>
  );
}

function add(cells: Sum[]): Sum {
  const all: Sum = { first: 0, regions: 0, live: 0, free: 0, holes: 0, dirty: 0, empty: 0, huge: 0, spans: 0, most: -1 };
  for (const cell of cells) {
    for (const name of ["regions", "live", "free", "holes", "dirty", "empty", "huge", "spans"] as const) all[name] += cell[name];
  }
  return all;
}

/** The values of `seemalloc stats` at the time of the map. */
function Resident({ memory }: { memory: Record<string, number> }) {
  return (
    <>
      Resident: live {bytes(memory.live!)}, cached {bytes(memory.cached!)}, <strong><Word name="fragmentation" /> {bytes(memory.fragmentation!)}</strong>
      {memory.uncertain! > 0 && <>, each may be off by up to {bytes(memory.uncertain!)}</>}.{" "}
    </>
  );
}

export function HeapMap({ state, shown, change }: { state: State; shown: Shown; change: Change }) {
  // The parts of a region are no longer available.
  const sumsAlone = !state.live && !state.ended;
  const [every, setEvery] = useState(2000);
  const picture = useRef<HTMLDivElement>(null);
  const { value: map, problem } = useAnswer(api.map, every, [every]);
  useEffect(() => {
    if (map && Math.max(2000, map.every) !== every) setEvery(Math.max(2000, map.every));
  }, [map]);
  const all = useMemo(() => (map ? add(sums(map, 1024)) : null), [map]);
  const at = map ? Math.max(0, map.addresses.indexOf(shown.region)) : 0;
  const first = map?.addresses[at] ?? "";
  const last = map?.addresses[Math.min(at + IN_PARTS, map.addresses.length) - 1] ?? "";
  const parts = useAnswer(async () => (first && !sumsAlone ? api.mapParts(first, "0x" + (BigInt(last) + 0x200000n).toString(16)) : null), every, [first, last, every]);
  const regions = useMemo(() => (parts.value?.regions ?? []).slice(0, IN_PARTS), [parts.value]);
  const pageBytes = map?.page_bytes ?? 0;
  const stacks = parts.value?.stacks;
  const has: Has = useMemo(() => {
    const isPinned = pinnedBy(shown);
    if (isAllSizes(shown) && !isPinned) return undefined;
    return (part) => {
      const size = blockSize(part, pageBytes);
      return size !== null && hasSize(shown, size) && (!isPinned || isPinned(part.stack ? stacks?.[part.stack] : undefined));
    };
  }, [shown.sizeFrom, shown.sizeTo, shown.focus, shown.ignore, stacks, pageBytes]);
  const wrong = unreadable("focus", shown.focus) || unreadable("ignore", shown.ignore);
  if (!map || !all) return <section>{problem ? <p class="problem" role="alert">{problem}</p> : <p role="status">Looking …</p>}</section>;
  const share = fragmentation(all);
  return (
    <section>
      {problem && <p class="problem" role="alert">{problem}</p>}
      <div ref={picture}>
      <p class="sum">
        {map.memory && <Resident memory={map.memory} />}
        By heap metadata, including nonresident memory, {percent(share, 1) || "0 %"} of the memory of spans is <Word name="free in spans">free</Word>: {bytes(all.free)} next to {bytes(all.live)} live.{" "}
        {count(all.regions)} <Word name="region">regions</Word> are {bytes(whole(all))} of addresses: {bytes(all.holes)} <Word name="purged" /> inside spans,{" "}
        {bytes(all.dirty)} of free pages not purged, {bytes(all.empty)} without memory; {count(all.huge)} on a <Word name="huge page" />.
      </p>
      <div class="bar">
        <label>live memory coloured by <select value={shown.paint} onChange={(event) => change({ paint: event.currentTarget.value })}>
          <option value="">use</option><option value="class">size class</option>
        </select></label>
        <SizeRange shown={shown} change={change} />
        <StackFilter shown={shown} change={change} problem={wrong} modules={undefined} />
        <SavePicture name="seemalloc.map" pixels draw={() => snapshot(picture.current!)} />
        <span class="legend map"><span style={{ background: LIVE }} />live<span style={{ background: FREE }} />free in spans<span style={{ background: DIRTY }} />free pages<span />no memory; a line above: huge page</span>
      </div>
      <Overall map={map} shown={shown} change={change} />
      {wrong && <p class="problem" role="alert">{wrong}</p>}
      {has && <p class="note">{sumsAlone ? "The filters select the blocks below" : "The filters select the spans and blocks below, others are faint or left out"}; the sums of a region include everything. Functions select by the stack that pins a span, if it is known.</p>}
      {sumsAlone && <p class="note">{isReport ? "A report" : "A folder"} has the sums of the regions, as of {clock(map.t)}. <code>seemalloc map PID --spans</code> and the live page show their spans.</p>}
      {!sumsAlone && <>
      <h2>Spans from {first} on</h2>
      <p class="legend map">The colour is the <Word name="size class" />, <span style={{ background: LARGE }} />large blocks; filled as far as the blocks are live; a gap at the top is <Word name="purged">purged memory</Word>.</p>
      {parts.problem && <p class="problem" role="alert">{parts.problem}</p>}
      <Strips map={map} regions={regions} has={has} stacks={parts.value?.stacks ?? {}} inner={parts.value?.inner} change={change} />
      </>}
      </div>
      {!sumsAlone && regions[0] && <details open><summary>The first of them as a table</summary><Table map={map} region={regions[0]} has={has} stacks={parts.value?.stacks ?? {}} inner={parts.value?.inner} change={change} /></details>}
      <Blocks map={map} shown={shown} change={change} />
      {(map.kept ?? []).length > 0 && <p class="note">{bytes(map.kept!.reduce((sum, one) => sum + (one.purged ? 0 : one.bytes), 0))} of freed huge blocks are retained for the next one.</p>}
      <p class="note"><code>seemalloc map PID</code> prints the same. The regions are read one after the other. {count(all.spans)} spans in total.</p>
    </section>
  );
}
