// What the process's memory is, over time and in words.
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Point, type SampleType, type Stacks, type State, type Suspect, api } from "../api.ts";
import { Chart } from "../draw/chart.tsx";
import { amount, bytes, count, percent } from "../model/format.ts";
import { apart, joined, level, rate, seconds } from "../model/series.ts";
import { type Held, heldFor, holders, lines, total } from "../model/stacks.ts";
import { type Change, type Shown, useAnswer } from "../state.ts";
import { Path } from "./path.tsx";
import { Word } from "./word.tsx";

// From the program's own memory to what is around it.
const PARTS: { label: string; of: (point: Point) => number; colour: string }[] = [
  { label: "live", of: (p) => p.live, colour: "#2563eb" },
  { label: "cached", of: (p) => p.cached, colour: "#38bdf8" },
  { label: "fragmentation", of: (p) => p.frag, colour: "#f59e0b" },
  { label: "metadata", of: (p) => p.meta, colour: "#a855f7" },
  { label: "not ours", of: (p) => p.other, colour: "#9ca3af" },
];

export function usePoints(): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    let timer = 0;
    let over = false;
    let last = 0;
    const once = async () => {
      try {
        const more = document.hidden ? [] : await api.series(last);
        if (over) return;
        last = more[more.length - 1]?.t ?? last;
        if (more.length) setPoints((before) => joined(before, more));
      } catch {
        // The state's own request says that the server is gone.
      }
      timer = window.setTimeout(once, 1000);
    };
    void once();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return points;
}

/** In words; saved profiles may be of something else than memory in use. */
function holds(value: number, whole: number, type: SampleType | undefined): string {
  if (type?.name === "inuse_space") return `holds ${bytes(value)}, ${percent(value, whole)} of what is in use`;
  return `has ${amount(value, type?.unit ?? "")} of ${type?.what ?? "all"}, ${percent(value, whole)}`;
}

function HeldFor({ callers, whole, change }: { callers: Held[]; whole: number; change: Change }) {
  return callers.map((one, i) => (
    <span key={one.name}>
      {i === 0 ? ": " : ", "}
      {percent(one.value, whole)} for <button class="link" onClick={() => change({ view: "callers", function: one.name })}>{one.name}</button>
    </span>
  ));
}

function Holders({ stacks, change }: { stacks: Stacks | null; change: Change }) {
  const rows = useMemo(() => {
    if (!stacks) return null;
    const all = lines(stacks, stacks.default);
    const most = holders(stacks, all).slice(0, 3).map((row) => ({ ...row, callers: heldFor(stacks, all, row.name).slice(0, 3) }));
    return { most, whole: total(all).weight, type: stacks.types[stacks.default] };
  }, [stacks]);
  if (!rows) return <p>…</p>;
  if (rows.whole === 0) return <p>Nothing has been sampled yet: the program has allocated too little.</p>;
  return (
    <ol>
      {rows.most.map((row) => (
        <li key={row.name}>
          <button class="link" onClick={() => change({ view: "callers", function: row.name })}>{row.name}</button> {holds(row.value, rows.whole, rows.type)}
          <HeldFor callers={row.callers} whole={rows.whole} change={change} />
        </li>
      ))}
    </ol>
  );
}

function Growers({ suspects, change }: { suspects: Suspect[] | null; change: Change }) {
  const sure = (suspects ?? []).filter((one) => one.sure > 0.9).slice(0, 3);
  if (!suspects) return <p>…</p>;
  if (sure.length === 0) return <p>Nothing grows steadily so far.</p>;
  return (
    <ol>
      {sure.map((one) => (
        <li key={one.stack.join()}>
          <Path stack={one.stack} inner={one.inner} change={change} /> grows by{" "}
          {bytes(one.bytes_per_s)} a second and holds {bytes(one.now)}
        </li>
      ))}
    </ol>
  );
}

export function Overview({ points, state, shown, change }: { points: Point[]; state: State; shown: Shown; change: Change }) {
  const last = points[points.length - 1];
  // Who holds most at the end of the time that is shown, which may be long ago.
  const inWindow = shown.from !== 0 || shown.until !== 0;
  const stacks = useAnswer(async () => {
    const last = inWindow ? (await api.moments(shown.from, shown.until)).at(-1) : undefined;
    return api.stacks("heap", last?.id ?? 0);
  }, 5000, [shown.from, shown.until]);
  const suspects = useAnswer(() => api.suspects(0, shown.from, shown.until), 5000, [shown.from, shown.until]);
  // Of a folder: what one process had says nothing of the time until the next one.
  const looks = useMemo(() => apart(points), [points]);
  const times = seconds(looks);
  const now = last && PARTS.map((part) => ({ ...part, value: part.of(last) }));
  return (
    <section>
      {now && (
        <p class="sum">
          <strong>{bytes(last.rss)}</strong> resident ={" "}
          {now.map((part, i) => (
            <span key={part.label}>
              {i > 0 && " + "}
              <span class="swatch" style={{ background: part.colour }} /> {bytes(part.value)} <Word name={part.label} />
            </span>
          ))}
        </p>
      )}
      {state.process && points.length > 0 && (
        <Chart title="Resident memory, explained" seconds={times} stacked format={bytes} bytes height={260}
          lines={PARTS.map((part) => ({ label: part.label, colour: part.colour, values: level(looks, part.of) }))} />
      )}
      <div class="columns">
        <div>
          <h2>Who holds most</h2>
          <Holders stacks={stacks.value} change={change} />
          {stacks.problem && <p class="problem">{stacks.problem}</p>}
        </div>
        <div>
          <h2>Who grows</h2>
          <Growers suspects={suspects.value} change={change} />
          {suspects.problem && <p class="problem">{suspects.problem}</p>}
        </div>
      </div>
      {points.length > 1 && (
        <div class="columns">
          <Chart title="Page faults a second" seconds={times} format={count} lines={[{ label: "faults", colour: "#dc2626", values: rate(looks, (p) => p.faults) }]} />
          <Chart title="Given back to the system, a second" seconds={times} format={bytes} bytes
            lines={[
              { label: "given back", colour: "#16a34a", values: rate(looks, (p) => p.purged) },
              { label: "refaults", colour: "#dc2626", values: rate(looks, (p) => p.refaults) },
            ]} />
          <Chart title="Free pages that are still there (dirty)" seconds={times} format={bytes} bytes lines={[{ label: "dirty", colour: "#0891b2", values: level(looks, (p) => p.dirty) }]} />
          <Chart title="Slow paths a second" seconds={times} format={count}
            lines={[
              { label: "refills", colour: "#7c3aed", values: rate(looks, (p) => p.refills) },
              { label: "remote frees", colour: "#ea580c", values: rate(looks, (p) => p.remote) },
              { label: "lock waits", colour: "#dc2626", values: rate(looks, (p) => p.lockwaits) },
            ]} />
          <Chart title="Threads" seconds={times} format={count} lines={[{ label: "threads", colour: "#4b5563", values: level(looks, (p) => p.threads) }]} />
        </div>
      )}
    </section>
  );
}
