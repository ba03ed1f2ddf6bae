// The process's memory, over time and in words.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Point, SampleType, State, Suspect } from "../answers.ts";
import { api } from "../api.ts";
import { Chart } from "../draw/chart.tsx";
import { amount, bytes, clock, count, percent } from "../model/format.ts";
import { growers } from "../model/growers.ts";
import { PARTS } from "../model/parts.ts";
import { apart, joined, level, rate, seconds } from "../model/series.ts";
import { between } from "../model/timeline.ts";
import { type Figures, type Look, questionOf } from "../look.ts";
import { useLook } from "../looks.ts";
import type { Held } from "../model/stacks.ts";
import { type Change, NOTHING, type Shown, useAnswer } from "../state.ts";
import { CPU_KIND } from "./cpu.tsx";
import { Path } from "./path.tsx";
import { Word } from "./word.tsx";

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
        // The request for the state reports that the server is gone.
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

/** In words. Saved profiles may be of something other than live memory. */
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

function Holders({ look, change }: { look: Look | null; change: Change }) {
  if (!look) return <p>…</p>;
  const { most } = look.figures as Figures["overview"];
  const { types, type, sum: { weight: whole } } = look.about;
  if (whole === 0) return <p>There are no samples yet: the program has allocated too little.</p>;
  return (
    <ol>
      {most.map((row) => (
        <li key={row.name}>
          <button class="link" onClick={() => change({ view: "callers", function: row.name })}>{row.name}</button> {holds(row.value, whole, types[type])}
          <HeldFor callers={row.callers} whole={whole} change={change} />
        </li>
      ))}
    </ol>
  );
}

function Growers({ suspects, change }: { suspects: Suspect[] | null; change: Change }) {
  const sure = useMemo(() => growers((suspects ?? []).filter((one) => one.sure > 0.9)).slice(0, 3), [suspects]);
  if (!suspects) return <p>…</p>;
  if (sure.length === 0) return <p>Nothing grows steadily so far.</p>;
  return (
    <ol>
      {sure.map((one) => (
        <li key={one.stack.join("\n")}>
          <Path stack={one.stack} inner={one.inner} change={change} /> grows by{" "}
          {bytes(one.bytes_per_s)} a second and holds {bytes(one.now)}
        </li>
      ))}
    </ol>
  );
}

/** The zoomed time range of the chart, with a link to its changes. */
function Zoomed({ span, shown, change, end }: { span: { from: number; to: number }; shown: Shown; change: Change; end: () => void }) {
  const [problem, setProblem] = useState("");
  const compare = async () => {
    try {
      const moments = (await api.moments(shown.from, shown.until)).filter((moment) => moment.t > 0);
      const [one, other] = between(moments.map((moment) => moment.t), 1000 * span.from, 1000 * span.to);
      if (one === other) setProblem("There are fewer than two profiles of this time.");
      else change({ view: "changes", kind: "heap", type: "", base: moments[one]!.id, at: moments[other]!.id });
    } catch (failure) {
      setProblem(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <div class="bar" role="group" aria-label="Chosen time">
      {clock(1000 * span.from)} to {clock(1000 * span.to)}: <button onClick={() => void compare()}>changes in this time</button>
      <button onClick={end}>whole time</button>
      {problem && <span class="problem" role="alert">{problem}</span>}
    </div>
  );
}

export function Overview({ points, state, shown, change }: { points: Point[]; state: State; shown: Shown; change: Change }) {
  const last = points[points.length - 1];
  const [span, setSpan] = useState<{ from: number; to: number } | null>(null);
  const [round, setRound] = useState(0); // of the chart, which is recreated to show everything
  // The largest functions at the end of the displayed time, which may be long ago.
  const inWindow = shown.from !== 0 || shown.until !== 0;
  const ends = useAnswer(async () => (inWindow ? { id: (await api.moments(shown.from, shown.until)).at(-1)?.id ?? 0 } : { id: 0 }), inWindow ? 5000 : 0, [shown.from, shown.until]);
  const look = useLook(ends.value && questionOf(NOTHING, "overview", { kind: "heap", at: ends.value.id, rows: "", follows: ends.value.id === 0 && state.process && !state.report }));
  const suspects = useAnswer(() => api.suspects(0, shown.from, shown.until), 5000, [shown.from, shown.until]);
  // In a folder, the values of one process are not connected to those of the next process.
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
          {(last.unsure ?? 0) > 0 && <>{" "}(<Word name="estimated" />: the maximum error of each part is {bytes(last.unsure ?? 0)})</>}
        </p>
      )}
      {state.process && points.length > 0 && (
        <Chart key={round} title="Resident memory, explained" seconds={times} stacked format={bytes} bytes height={260} onZoom={setSpan}
          lines={PARTS.map((part) => ({ label: part.label, colour: part.colour, values: level(looks, part.of) }))} />
      )}
      {span && (
        <Zoomed span={span} shown={shown} change={change} end={() => {
          setSpan(null);
          setRound(round + 1);
        }} />
      )}
      <div class="columns">
        <div>
          <h2>Largest holders</h2>
          <Holders look={look.value} change={change} />
          {(look.problem || ends.problem) && <p class="problem">{look.problem || ends.problem}</p>}
        </div>
        <div>
          <h2>Growth</h2>
          <Growers suspects={suspects.value} change={change} />
          {suspects.problem && <p class="problem">{suspects.problem}</p>}
          {state.live && state.kinds?.some((kind) => kind.name === CPU_KIND) && (
            <p><button class="link" onClick={() => change({ view: "flame", kind: CPU_KIND, type: "", at: 0, base: -1, labels: "", thread: "", seconds: 0 })}>CPU time by function</button></p>
          )}
        </div>
      </div>
      {points.length > 1 && (
        <div class="columns">
          {points.some((point) => point.allocated) && (
            <Chart title="Allocated per second" seconds={times} format={bytes} bytes lines={[{ label: "allocated", colour: "#2563eb", values: rate(looks, (p) => p.allocated ?? 0) }]} />
          )}
          <Chart title="Page faults per second" caption={<Word name="page faults">Page faults per second</Word>} seconds={times} format={count} lines={[{ label: "faults", colour: "#dc2626", values: rate(looks, (p) => p.faults) }]} />
          <Chart title="Returned to the OS per second" caption={<Word name="returned to the OS">Returned to the OS per second</Word>} seconds={times} format={bytes} bytes
            lines={[
              { label: "returned", colour: "#16a34a", values: rate(looks, (p) => p.purged) },
              { label: "refaults", colour: "#dc2626", values: rate(looks, (p) => p.refaults) },
            ]} />
          <Chart title="Slow paths per second" caption={<Word name="slow paths">Slow paths per second</Word>} seconds={times} format={count}
            lines={[
              { label: "refills", colour: "#7c3aed", values: rate(looks, (p) => p.refills) },
              { label: "remote frees", colour: "#ea580c", values: rate(looks, (p) => p.remote) },
              { label: "lock waits", colour: "#dc2626", values: rate(looks, (p) => p.lockwaits) },
            ]} />
          <Chart title="Threads" seconds={times} format={count} lines={[{ label: "threads", colour: "#0d9488", values: level(looks, (p) => p.threads) }]} />
        </div>
      )}
    </section>
  );
}
