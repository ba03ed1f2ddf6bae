// The summary: the figures of the process, what to look at, and its memory over time.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Point, SampleType, State, Suspect } from "../answers.ts";
import { api } from "../api.ts";
import { Chart } from "../draw/chart.tsx";
import { amount, bytes, clock, count, percent } from "../model/format.ts";
import { RESIDENT_PARTS } from "../model/residentparts.ts";
import { appendPoints, insertGaps, ratePerSecond, timesInSeconds, valuesOf } from "../model/series.ts";
import type { FunctionMemory } from "../model/stacks.ts";
import { nearestPair } from "../model/timeline.ts";
import { type Change, DEFAULT_STATE, kindSettings, useRequest, type ViewState } from "../state.ts";
import { useViewData } from "../useviewdata.ts";
import { type ViewData, type ViewResult, viewRequest } from "../viewdata.ts";
import { Busy } from "./busy.tsx";
import { CPU_KIND } from "./cpu.tsx";
import { Findings } from "./doctor.tsx";
import { Facts } from "./facts.tsx";
import { NoGrowth } from "./growth.tsx";
import { Path } from "./path.tsx";
import { Term } from "./term.tsx";

export function usePoints(): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  useEffect(() => {
    let timer = 0;
    let cancelled = false;
    let last = 0;
    const poll = async () => {
      try {
        const more = document.hidden ? [] : await api.series(last);
        if (cancelled) return;
        last = more[more.length - 1]?.t ?? last;
        if (more.length) setPoints((before) => appendPoints(before, more));
      } catch {
        // The request for the state reports that the server is gone.
      }
      timer = window.setTimeout(poll, 1000);
    };
    void poll();
    return () => {
      cancelled = true;
      clearTimeout(timer);
    };
  }, []);
  return points;
}

/** In words. Saved profiles may be of something other than live memory. */
function describeHolding(value: number, whole: number, type: SampleType | undefined): string {
  if (type?.name === "inuse_space") return `holds ${bytes(value)}, ${percent(value, whole)} of what is in use`;
  return `has ${amount(value, type?.unit ?? "")} of ${type?.what ?? "all"}, ${percent(value, whole)}`;
}

function HolderCallers({ callers, whole, change }: { callers: FunctionMemory[]; whole: number; change: Change }) {
  return callers.map((one, i) => (
    <span key={one.name}>
      {i === 0 ? ": " : ", "}
      {percent(one.value, whole)} for{" "}
      <button class="link" onClick={() => change({ view: "callers", function: one.name })}>
        {one.name}
      </button>
    </span>
  ));
}

function LargestHolders({ result, change }: { result: ViewResult | null; change: Change }) {
  if (!result) return null;
  const { topHolders } = result.data as ViewData["overview"];
  const {
    types,
    type,
    total: { weight: whole },
  } = result.about;
  if (whole === 0)
    return (
      <p>
        There are no samples yet: the program has allocated too little. About one block in 512 KiB is sampled, or as the
        option sample says.
      </p>
    );
  return (
    <ol>
      {topHolders.map((row) => (
        <li key={row.name}>
          <button class="link" onClick={() => change({ view: "callers", function: row.name })}>
            {row.name}
          </button>{" "}
          {describeHolding(row.value, whole, types[type])}
          <HolderCallers callers={row.callers} whole={whole} change={change} />
        </li>
      ))}
    </ol>
  );
}

function FastestGrowth({
  suspects,
  state,
  shown,
  change,
}: {
  suspects: Suspect[];
  state: State;
  shown: ViewState;
  change: Change;
}) {
  const sure = suspects.slice(0, 3);
  if (sure.length === 0) return <NoGrowth isFiltered={false} byThread={false} state={state} shown={shown} />;
  return (
    <ol>
      {sure.map((one) => (
        <li key={one.stack.join("\n")}>
          <Path stack={one.stack} inner={one.inner} change={change} /> {one.steady ? "grows" : "grew"} by{" "}
          {bytes(one.bytes_per_s)} ± {bytes(one.standard_error)} a second ({one.class}) and holds {bytes(one.now)}
        </li>
      ))}
    </ol>
  );
}

/** The zoomed time range of the chart, with a link to its changes. */
function ZoomedRange({
  span,
  shown,
  change,
  end,
}: {
  span: { from: number; to: number };
  shown: ViewState;
  change: Change;
  end: () => void;
}) {
  const [problem, setProblem] = useState("");
  const compare = async () => {
    try {
      const moments = (await api.moments(shown.from, shown.until)).filter((moment) => moment.t > 0);
      const [one, other] = nearestPair(
        moments.map((moment) => moment.t),
        1000 * span.from,
        1000 * span.to,
      );
      if (one === other) setProblem("There are fewer than two profiles of this time.");
      else change({ view: "changes", kind: "heap", type: "", base: moments[one]!.id, at: moments[other]!.id });
    } catch (failure) {
      setProblem(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <div class="bar" role="group" aria-label="Chosen time">
      {clock(1000 * span.from)} to {clock(1000 * span.to)}:{" "}
      <button onClick={() => void compare()}>changes in this time</button>
      <button onClick={end}>whole time</button>
      {problem && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}

export function Overview({
  points,
  state,
  shown,
  change,
}: {
  points: Point[];
  state: State;
  shown: ViewState;
  change: Change;
}) {
  const last = points[points.length - 1];
  const [span, setSpan] = useState<{ from: number; to: number } | null>(null);
  const [round, setRound] = useState(0); // of the chart, which is recreated to show everything
  // The largest functions at the end of the displayed time, which may be long ago.
  const hasRange = shown.from !== 0 || shown.until !== 0;
  const lastMoment = useRequest(
    async () => (hasRange ? { id: (await api.moments(shown.from, shown.until)).at(-1)?.id ?? 0 } : { id: 0 }),
    hasRange ? 5000 : 0,
    [shown.from, shown.until],
  );
  const holders = useViewData(
    lastMoment.value &&
      viewRequest(DEFAULT_STATE, "overview", {
        kind: "heap",
        at: lastMoment.value.id,
        rows: "",
        isLive: lastMoment.value.id === 0 && state.process && !state.report,
      }),
  );
  const suspects = useRequest(() => api.suspects(0, shown.from, shown.until), 5000, [shown.from, shown.until]);
  // In a folder, the values of one process are not connected to those of the next process.
  const series = useMemo(() => insertGaps(points), [points]);
  const times = timesInSeconds(series);
  const now = last && RESIDENT_PARTS.map((part) => ({ ...part, value: part.of(last) }));
  return (
    <section>
      {last && state.process && <Facts points={points} state={state} />}
      {state.process && (
        <>
          <h2>Findings</h2>
          <Findings state={state} change={change} />
        </>
      )}
      <div class="columns">
        <div>
          <h2>Largest holders</h2>
          <LargestHolders result={holders.value} change={change} />
          {!holders.value && !holders.problem && !lastMoment.problem && <Busy>Reads the profile</Busy>}
          {(holders.problem || lastMoment.problem) && <p class="problem">{holders.problem || lastMoment.problem}</p>}
        </div>
        <div>
          <h2>Growth</h2>
          {suspects.value ? (
            <FastestGrowth suspects={suspects.value} state={state} shown={shown} change={change} />
          ) : (
            !suspects.problem && <Busy>Compares the profiles</Busy>
          )}
          {suspects.problem && <p class="problem">{suspects.problem}</p>}
          {state.live && state.kinds?.some((kind) => kind.name === CPU_KIND) && (
            <p>
              <button class="link" onClick={() => change({ view: "flame", ...kindSettings(CPU_KIND) })}>
                CPU time by function
              </button>
            </p>
          )}
        </div>
      </div>
      {now && (
        <p class="total">
          <strong>{bytes(last.rss)}</strong> resident ={" "}
          {now.map((part, i) => (
            <span key={part.label}>
              {i > 0 && " + "}
              <span class="swatch" style={{ background: part.colour }} /> {bytes(part.value)} <Term name={part.label} />
            </span>
          ))}
          {(last.unsure ?? 0) > 0 && (
            <>
              {" "}
              (<Term name="estimated" />: the maximum error of each part is {bytes(last.unsure ?? 0)})
            </>
          )}
        </p>
      )}
      {state.process && points.length > 0 && (
        <Chart
          key={round}
          title="Resident memory, explained"
          seconds={times}
          stacked
          format={bytes}
          bytes
          height={260}
          onZoom={setSpan}
          lines={RESIDENT_PARTS.map((part) => ({
            label: part.label,
            colour: part.colour,
            values: valuesOf(series, part.of),
          }))}
        />
      )}
      {span && (
        <ZoomedRange
          span={span}
          shown={shown}
          change={change}
          end={() => {
            setSpan(null);
            setRound(round + 1);
          }}
        />
      )}
      {points.length > 1 && (
        <div class="columns">
          {points.some((point) => point.allocated) && (
            <Chart
              title="Allocated per second"
              seconds={times}
              format={bytes}
              bytes
              lines={[
                { label: "allocated", colour: "#2563eb", values: ratePerSecond(series, (p) => p.allocated ?? 0) },
              ]}
            />
          )}
          <Chart
            title="Page faults per second"
            caption={<Term name="page faults">Page faults per second</Term>}
            seconds={times}
            format={count}
            lines={[{ label: "faults", colour: "#dc2626", values: ratePerSecond(series, (p) => p.faults) }]}
          />
          <Chart
            title="Returned to the OS per second"
            caption={<Term name="returned to the OS">Returned to the OS per second</Term>}
            seconds={times}
            format={bytes}
            bytes
            lines={[
              { label: "returned", colour: "#16a34a", values: ratePerSecond(series, (p) => p.purged) },
              { label: "refaults", colour: "#dc2626", values: ratePerSecond(series, (p) => p.refaults) },
            ]}
          />
          <Chart
            title="Slow paths per second"
            caption={<Term name="slow paths">Slow paths per second</Term>}
            seconds={times}
            format={count}
            lines={[
              { label: "refills", colour: "#7c3aed", values: ratePerSecond(series, (p) => p.refills) },
              { label: "remote frees", colour: "#ea580c", values: ratePerSecond(series, (p) => p.remote) },
              { label: "lock waits", colour: "#dc2626", values: ratePerSecond(series, (p) => p.lockwaits) },
            ]}
          />
          <Chart
            title="Threads"
            seconds={times}
            format={count}
            lines={[{ label: "threads", colour: "#0d9488", values: valuesOf(series, (p) => p.threads) }]}
          />
        </div>
      )}
    </section>
  );
}
