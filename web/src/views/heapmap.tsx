// The heap map: the address space with all regions above, and the spans of the selected regions below. A table has the
// same data.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { MapSums, State } from "../answers.ts";
import { api, isReport } from "../api.ts";
import { DIRTY, FREE, LARGE, LIVE } from "../draw/heapmap.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, clock, count, percent } from "../model/format.ts";
import { blockSize, fragmentation, pinFilter, type RegionSums, sumRegions, totalBytes } from "../model/heapmap.ts";
import { acceptsAllSizes, acceptsSize } from "../model/rowfilters.ts";
import { patternError } from "../model/stacks.ts";
import { type Change, useRequest, type ViewState } from "../state.ts";
import { Busy } from "./busy.tsx";
import { FilterBar } from "./filterbar.tsx";
import { RegionGrid } from "./regiongrid.tsx";
import { SizeRange } from "./rowfilters.tsx";
import { DETAILED_REGIONS, PinningStack, type SpanFilter, SpanStrips, SpanTable } from "./spans.tsx";
import { StackFilter } from "./stackfilter.tsx";
import { Term } from "./term.tsx";

const MAX_BLOCKS = 100;

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
          <p>
            <Busy>Reads the heap map</Busy>
          </p>
        )}
      </section>
    );
  const share = fragmentation(all);
  return (
    <section>
      <FilterBar
        shown={shown}
        change={change}
        line={<SavePicture name="seemalloc.map" pixels draw={() => snapshot(picture.current!)} />}
      >
        <SizeRange shown={shown} change={change} />
        <StackFilter shown={shown} change={change} problem={filterError} modules={undefined} />
      </FilterBar>
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
