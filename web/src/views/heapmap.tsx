// The heap map: the address space with all regions above, and the spans of the selected regions below. A table has the
// same data.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { MapPart, MapRegion, MapSums, State } from "../answers.ts";
import { api, isReport } from "../api.ts";
import {
  DIRTY,
  drawCells,
  drawStrips,
  FREE,
  LARGE,
  LIVE,
  type PartPosition,
  STRIP,
  STRIP_GAP,
  sizeClassColour,
  stripAt,
} from "../draw/heapmap.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, clock, count, percent } from "../model/format.ts";
import {
  blockSize,
  describePart,
  describeSum,
  formatAge,
  fragmentation,
  layoutGrid,
  occupancy,
  partAt,
  pinFilter,
  type RegionSums,
  sumRegions,
  totalBytes,
} from "../model/heapmap.ts";
import { acceptsAllSizes, acceptsSize } from "../model/rowfilters.ts";
import { patternError } from "../model/stacks.ts";
import { type Change, useRequest, type ViewState } from "../state.ts";
import { ChunkedRows } from "./chunkedrows.tsx";
import { Path } from "./path.tsx";
import { SizeRange } from "./rowfilters.tsx";
import { StackFilter } from "./stackfilter.tsx";
import { Term } from "./term.tsx";

const DETAILED_REGIONS = 16; // regions
const MAX_HEIGHT = 400; // px of the upper canvas
const MAX_BLOCKS = 100;

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
type InnerCounts = Record<string, number> | undefined;

/** The stack that pins memory, with links to the callers. */
function PinningStack({
  part,
  stacks,
  inner,
  change,
}: {
  part: MapPart | { stack?: string; samples?: number; age_ms?: number };
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const stack = part.stack ? stacks[part.stack] : undefined;
  if (!stack) return null;
  return (
    <>
      {stack.length ? (
        <Path stack={stack} inner={inner?.[part.stack!] ?? 0} change={change} maxNames={4} />
      ) : (
        "(no stack)"
      )}{" "}
      <small>
        {formatAge(part.age_ms ?? 0)} old{(part.samples ?? 1) > 1 && `, ${count(part.samples! - 1)} more`}
      </small>
    </>
  );
}

function RegionGrid({ map, shown, change }: { map: MapSums; shown: ViewState; change: Change }) {
  const [canvas, width] = useWidth();
  const [hovered, setHovered] = useState(-1);
  const dark = isDark();
  const shape = useMemo(
    () => layoutGrid(map.regions.length, Math.max(width, 200), MAX_HEIGHT),
    [map.regions.length, width],
  );
  const cells = useMemo(() => sumRegions(map, shape.regionsPerCell), [map, shape.regionsPerCell]);
  const at = Math.max(0, map.addresses.indexOf(shown.region));
  const selected = Math.floor(at / shape.regionsPerCell);
  useEffect(() => {
    if (width > 0)
      drawCells(canvas.current!, width, cells, shape, selected, { dark, byClass: shown.paint === "class" });
  }, [cells, shape, width, selected, dark, shown.paint]);
  const select = (cell: number) => {
    const sum = cells[Math.min(Math.max(0, cell), cells.length - 1)];
    if (sum) change({ region: map.addresses[sum.first]! });
  };
  const cellAt = (event: MouseEvent) =>
    Math.floor(event.offsetY / shape.cellSize) * shape.columns + Math.floor(event.offsetX / shape.cellSize);
  const STEPS: Record<string, number> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -shape.columns,
    ArrowDown: shape.columns,
    Home: -cells.length,
    End: cells.length,
  };
  const detailCell = cells[hovered] ?? cells[selected];
  return (
    <>
      <p class="detail all" aria-live="polite">
        {detailCell && describeSum(map, detailCell)}
      </p>
      <canvas
        ref={canvas}
        class="map all"
        tabIndex={0}
        role="img"
        aria-label={`All ${map.regions.length} regions in ${cells.length} cells. The arrow keys move the selection; the table below has the parts of the selected regions.`}
        onMouseMove={(event) => setHovered(cellAt(event))}
        onMouseLeave={() => setHovered(-1)}
        onClick={(event) => select(cellAt(event))}
        onKeyDown={(event) => {
          const step = STEPS[event.key];
          if (step === undefined) return;
          select(selected + step);
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
type SpanFilter = ((part: MapPart) => boolean) | undefined;

function SpanStrips({
  map,
  regions,
  isSelected,
  stacks,
  inner,
  change,
}: {
  map: MapSums;
  regions: MapRegion[];
  isSelected: SpanFilter;
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const [canvas, width] = useWidth();
  const [focused, setFocused] = useState<PartPosition | null>(null);
  const [hovered, setHovered] = useState<PartPosition | null>(null);
  const dark = isDark();
  useEffect(() => {
    if (width > 0)
      drawStrips(canvas.current!, width, regions, map.os_page_bytes / map.page_bytes, focused, {
        dark,
        byClass: true,
        isSelected,
      });
  }, [regions, width, focused, dark, isSelected]);
  const positionAt = (event: MouseEvent): PartPosition | null => {
    const { region, page } = stripAt(event.offsetX, event.offsetY, width);
    return regions[region] ? { region, part: partAt(regions[region]!, page) } : null;
  };
  const move = (event: KeyboardEvent) => {
    const now = focused ?? { region: 0, part: -1 };
    const parts = regions[now.region]?.parts ?? [];
    const page = parts[now.part]?.page ?? 0;
    let next: PartPosition | null = null;
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
  const detailPosition = hovered ?? focused;
  const region = detailPosition && regions[detailPosition.region];
  const part = detailPosition && region?.parts?.[detailPosition.part];
  return (
    <>
      <p class="detail part" aria-live="polite">
        {part ? (
          <>
            {region!.region} + {bytes(part.page * map.page_bytes)}, {describePart(part, map.page_bytes)}{" "}
            <PinningStack part={part} stacks={stacks} inner={inner} change={change} />
          </>
        ) : (
          "Point at a span, or move to it with the arrow keys, for its size class, how full it is, how long it has been idle, and the stack that pins it."
        )}
      </p>
      <canvas
        ref={canvas}
        class="map parts"
        tabIndex={0}
        role="img"
        aria-label={`The spans of ${regions.length} regions. Left and right move between spans, up and down between regions; the table below has the same data.`}
        height={DETAILED_REGIONS * (STRIP + STRIP_GAP)}
        onMouseMove={(event) => setHovered(positionAt(event))}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => setFocused(positionAt(event))}
        onKeyDown={move}
      />
    </>
  );
}

function SpanTable({
  map,
  region,
  isSelected,
  stacks,
  inner,
  change,
}: {
  map: MapSums;
  region: MapRegion;
  isSelected: SpanFilter;
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const parts = useMemo(() => (region.parts ?? []).filter(isSelected ?? (() => true)), [region, isSelected, stacks]);
  return (
    <table class="figures parts stacked" style={{ "--columns": 4 }}>
      <caption>
        {region.region}
        {region.huge ? ", on a huge page" : ""}
      </caption>
      <thead>
        <tr>
          <th scope="col">page</th>
          <th scope="col">bytes</th>
          <th scope="col" class="name">
            <Term name="what" />
          </th>
          <th scope="col">
            <Term name="size class" />
          </th>
          <th scope="col">
            <Term name="live blocks">live</Term>
          </th>
          <th scope="col">of</th>
          <th scope="col">full</th>
          <th scope="col">
            <Term name="idle for" />
          </th>
          <th scope="col">
            <Term name="pinned by" />
          </th>
        </tr>
      </thead>
      <tbody>
        <ChunkedRows
          rows={parts}
          chunkSize={64}
          renderRow={(part) => {
            const full = occupancy(part);
            return (
              <tr key={part.page}>
                <td>{part.page}</td>
                <td>{bytes(part.pages * map.page_bytes)}</td>
                <td class="name">
                  {part.is} {part.state}
                </td>
                <td>
                  {part.size && <span class="swatch" style={{ background: sizeClassColour(part.size, isDark()) }} />}{" "}
                  {part.size && bytes(part.size)}
                </td>
                <td>{part.blocks && count(part.live ?? 0)}</td>
                <td>{part.blocks && count(part.blocks)}</td>
                <td>{full === null ? "" : percent(full, 1) || "0 %"}</td>
                <td>{part.idle_ms === undefined ? "" : formatAge(part.idle_ms)}</td>
                <td class="name">
                  <PinningStack part={part} stacks={stacks} inner={inner} change={change} />
                </td>
              </tr>
            );
          }}
        />
      </tbody>
    </table>
  );
}

function Blocks({ map, shown, change }: { map: MapSums; shown: ViewState; change: Change }) {
  const isPinned = pinFilter(shown) ?? (() => true);
  const blocks = (map.blocks ?? [])
    .filter((block) => acceptsSize(shown, block.bytes) && isPinned(block.stack ? map.stacks[block.stack] : undefined))
    .sort((a, b) => b.bytes - a.bytes);
  if (blocks.length === 0) return null;
  return (
    <table class="figures blocks stacked" style={{ "--columns": 3 }}>
      <caption>Blocks above 1 MiB, with mappings of their own</caption>
      <thead>
        <tr>
          <th scope="col">address</th>
          <th scope="col">bytes</th>
          <th scope="col">room to grow</th>
          <th scope="col">allocated in, called by …</th>
        </tr>
      </thead>
      <tbody>
        {blocks.slice(0, MAX_BLOCKS).map((block) => (
          <tr key={block.block}>
            <td>{block.block}</td>
            <td>{bytes(block.bytes)}</td>
            <td>{bytes(block.room)}</td>
            <td class="name">
              <PinningStack part={block} stacks={map.stacks} inner={map.inner} change={change} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function sumCells(cells: RegionSums[]): RegionSums {
  const all: RegionSums = {
    first: 0,
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
  for (const cell of cells) {
    for (const name of ["regions", "live", "free", "holes", "dirty", "empty", "huge", "spans"] as const)
      all[name] += cell[name];
  }
  return all;
}

/** The values of `seemalloc stats` at the time of the map. */
function Resident({ memory }: { memory: Record<string, number> }) {
  return (
    <>
      Resident: live {bytes(memory.live!)}, cached {bytes(memory.cached!)},{" "}
      <strong>
        <Term name="fragmentation" /> {bytes(memory.fragmentation!)}
      </strong>
      {memory.uncertain! > 0 && <>, each may be off by up to {bytes(memory.uncertain!)}</>}.{" "}
    </>
  );
}

export function HeapMap({ state, shown, change }: { state: State; shown: ViewState; change: Change }) {
  // The parts of a region are no longer available.
  const hasOnlySums = !state.live && !state.ended;
  const [intervalMs, setIntervalMs] = useState(2000);
  const picture = useRef<HTMLDivElement>(null);
  const { value: map, problem } = useRequest(api.map, intervalMs, [intervalMs]);
  useEffect(() => {
    if (map && Math.max(2000, map.every) !== intervalMs) setIntervalMs(Math.max(2000, map.every));
  }, [map]);
  const all = useMemo(() => (map ? sumCells(sumRegions(map, 1024)) : null), [map]);
  const at = map ? Math.max(0, map.addresses.indexOf(shown.region)) : 0;
  const first = map?.addresses[at] ?? "";
  const last = map?.addresses[Math.min(at + DETAILED_REGIONS, map.addresses.length) - 1] ?? "";
  const parts = useRequest(
    async () => (first && !hasOnlySums ? api.mapParts(first, "0x" + (BigInt(last) + 0x200000n).toString(16)) : null),
    intervalMs,
    [first, last, intervalMs],
  );
  const regions = useMemo(() => (parts.value?.regions ?? []).slice(0, DETAILED_REGIONS), [parts.value]);
  const pageBytes = map?.page_bytes ?? 0;
  const stacks = parts.value?.stacks;
  const isSelected: SpanFilter = useMemo(() => {
    const isPinned = pinFilter(shown);
    if (acceptsAllSizes(shown) && !isPinned) return undefined;
    return (part) => {
      const size = blockSize(part, pageBytes);
      return (
        size !== null &&
        acceptsSize(shown, size) &&
        (!isPinned || isPinned(part.stack ? stacks?.[part.stack] : undefined))
      );
    };
  }, [shown.sizeFrom, shown.sizeTo, shown.focus, shown.ignore, stacks, pageBytes]);
  const filterError = patternError("focus", shown.focus) || patternError("ignore", shown.ignore);
  if (!map || !all)
    return (
      <section>
        {problem ? (
          <p class="problem" role="alert">
            {problem}
          </p>
        ) : (
          <p role="status">Looking …</p>
        )}
      </section>
    );
  const share = fragmentation(all);
  return (
    <section>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div ref={picture}>
        <p class="total">
          {map.memory && <Resident memory={map.memory} />}
          By heap metadata, including nonresident memory, {percent(share, 1) || "0 %"} of the memory of spans is{" "}
          <Term name="free in spans">free</Term>: {bytes(all.free)} next to {bytes(all.live)} live. {count(all.regions)}{" "}
          <Term name="region">regions</Term> are {bytes(totalBytes(all))} of addresses: {bytes(all.holes)}{" "}
          <Term name="purged" /> inside spans, {bytes(all.dirty)} of free pages not purged, {bytes(all.empty)} without
          memory; {count(all.huge)} on a <Term name="huge page" />.
        </p>
        <div class="bar">
          <label>
            live memory coloured by{" "}
            <select value={shown.paint} onChange={(event) => change({ paint: event.currentTarget.value })}>
              <option value="">use</option>
              <option value="class">size class</option>
            </select>
          </label>
          <SizeRange shown={shown} change={change} />
          <StackFilter shown={shown} change={change} problem={filterError} modules={undefined} />
          <SavePicture name="seemalloc.map" pixels draw={() => snapshot(picture.current!)} />
          <span class="legend map">
            <span style={{ background: LIVE }} />
            live
            <span style={{ background: FREE }} />
            free in spans
            <span style={{ background: DIRTY }} />
            free pages
            <span />
            no memory; a line above: huge page
          </span>
        </div>
        <RegionGrid map={map} shown={shown} change={change} />
        {filterError && (
          <p class="problem" role="alert">
            {filterError}
          </p>
        )}
        {isSelected && (
          <p class="note">
            {hasOnlySums
              ? "The filters select the blocks below"
              : "The filters select the spans and blocks below, others are faint or left out"}
            ; the sums of a region include everything. Functions select by the stack that pins a span, if it is known.
          </p>
        )}
        {hasOnlySums && (
          <p class="note">
            {isReport ? "A report" : "A folder"} has the sums of the regions, as of {clock(map.t)}.{" "}
            <code>seemalloc map PID --spans</code> and the live page show their spans.
          </p>
        )}
        {!hasOnlySums && (
          <>
            <h2>Spans from {first} on</h2>
            <p class="legend map">
              The colour is the <Term name="size class" />, <span style={{ background: LARGE }} />
              large blocks; filled as far as the blocks are live; a gap at the top is{" "}
              <Term name="purged">purged memory</Term>.
            </p>
            {parts.problem && (
              <p class="problem" role="alert">
                {parts.problem}
              </p>
            )}
            <SpanStrips
              map={map}
              regions={regions}
              isSelected={isSelected}
              stacks={parts.value?.stacks ?? {}}
              inner={parts.value?.inner}
              change={change}
            />
          </>
        )}
      </div>
      {!hasOnlySums && regions[0] && (
        <details open>
          <summary>The first of them as a table</summary>
          <SpanTable
            map={map}
            region={regions[0]}
            isSelected={isSelected}
            stacks={parts.value?.stacks ?? {}}
            inner={parts.value?.inner}
            change={change}
          />
        </details>
      )}
      <Blocks map={map} shown={shown} change={change} />
      {(map.kept ?? []).length > 0 && (
        <p class="note">
          {bytes(map.kept!.reduce((sum, one) => sum + (one.purged ? 0 : one.bytes), 0))} of freed huge blocks are
          retained for the next one.
        </p>
      )}
      <p class="note">
        <code>seemalloc map PID</code> prints the same. The regions are read one after the other. {count(all.spans)}{" "}
        spans in total.
      </p>
    </section>
  );
}
