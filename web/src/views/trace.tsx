// The live trace: each call into the kernel as it happens, histograms by call and reason, and the stack of each call.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bucket, TraceEvent, Traced } from "../answers.ts";
import { api, isReport } from "../api.ts";
import { chosenOf, problemOf } from "../model/events.ts";
import { bytes, count, duration } from "../model/format.ts";
import type { Change, Shown } from "../state.ts";
import { Thread } from "./rows.tsx";
import { StackFilter } from "./stackfilter.tsx";
import { Word } from "./word.tsx";

const EVERY = 500; // ms
const KEPT = 1000; // events
const SHOWN = 100;
const HELPER = "seemalloc";

function place(event: TraceEvent): string {
  if (event.thread_name === HELPER) return "(the allocator's own thread)";
  return event.stack[0] ?? "(no stack)";
}

function Histogram({ title, buckets, edge }: { title: string; buckets: Bucket[]; edge: (value: number) => string }) {
  const most = Math.max(1, ...buckets.map((one) => one.count));
  return (
    <table class="figures histogram">
      <caption>{title}</caption>
      <thead><tr><th scope="col">from</th><th scope="col">below</th><th scope="col">calls</th><th scope="col">calls</th></tr></thead>
      <tbody>
        {buckets.map((one) => (
          <tr key={one.low}>
            <td>{edge(one.low)}</td><td>{edge(one.high)}</td><td>{count(one.count)}</td>
            <td class="meter"><span style={{ width: `${(100 * one.count) / most}%`, background: "#2563eb" }} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const nameOf = (one: { call: string; reason: string }) => `${one.call}, ${one.reason}`;

export function Trace({ shown: { focus, ignore, thread }, shown: all, change }: { shown: Shown; change: Change }) {
  const [on, setOn] = useState(!isReport);
  const [seen, setSeen] = useState<Traced | null>(null);
  const [events, setEvents] = useState<TraceEvent[]>([]);
  const [kind, setKind] = useState("");
  const [chosen, setChosen] = useState<TraceEvent | null>(null);
  const [problem, setProblem] = useState("");
  const next = useRef(0);
  useEffect(() => {
    if (!on) return;
    let over = false;
    let timer = 0;
    const look = async () => {
      if (!document.hidden) {
        try {
          const got = await api.trace(next.current);
          if (over) return;
          next.current = got.next;
          setSeen(got);
          if (got.events.length > 0) setEvents((before) => [...before, ...got.events].slice(-KEPT));
          setProblem("");
        } catch (failure) {
          if (over) return;
          setProblem(failure instanceof Error ? failure.message : String(failure));
        }
      }
      if (!over) timer = window.setTimeout(look, EVERY);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [on]);
  const shown = chosenOf(events, { focus, ignore, thread }).filter((event) => !kind || nameOf(event) === kind).slice(-SHOWN).reverse();
  const wrong = problemOf({ focus, ignore, thread });
  const calls = seen?.calls ?? [];
  const isChosen = !!(focus || ignore || thread);
  if (isReport) return <p class="note">A report has no trace, which shows calls as they happen.</p>;
  const one = calls.find((each) => nameOf(each) === kind) ?? calls[0];
  return (
    <section class="trace" aria-label="Trace">
      <h2>Live trace</h2>
      <div class="bar">
        <button aria-pressed={on} onClick={() => setOn(!on)}>{on ? "stop tracing" : "trace"}</button>
        <span role="status">{on && seen ? `Tracing for ${Math.round(seen.elapsed_s)} s` : on ? "…" : "Stopped: the process stops recording after 5 s"}</span>
        {seen && <span>{count(seen.lost)} <Word name="lost" />, {count(seen.dropped)} not recorded</span>}
        <label>calls <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="">all</option>
          {calls.map((each) => <option key={nameOf(each)}>{nameOf(each)}</option>)}
        </select></label>
        <StackFilter shown={all} change={change} problem={wrong} modules={undefined} />
        <Thread names={[...new Set(events.map((event) => event.thread_name))].sort()} value={thread} problem={wrong} set={(text) => change({ thread: text })} />
      </div>
      {wrong && <p class="problem" role="alert">{wrong}</p>}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {seen && calls.length === 0 && <p class="note">No call so far.</p>}
      {calls.length > 0 && (
        <table class="figures totals stacked calls" style={{ "--columns": 5 }}>
          <caption>Since the trace began{isChosen && ", of all threads and functions"}</caption>
          <thead><tr><th scope="col" class="name">call</th><th scope="col" class="name"><Word name="reason" /></th><th scope="col">calls</th><th scope="col">bytes</th><th scope="col">refused</th><th scope="col">time</th><th scope="col">per call</th></tr></thead>
          <tbody>
            {calls.map((each) => (
              <tr key={nameOf(each)} class={each === one ? "chosen" : ""}>
                <td class="name"><button class="link" aria-pressed={nameOf(each) === kind} onClick={() => setKind(nameOf(each) === kind ? "" : nameOf(each))}>{each.call}</button></td>
                <td class="name">{each.reason}</td><td>{count(each.calls)}</td><td>{bytes(each.bytes)}</td><td>{count(each.refused)}</td><td>{duration(each.ns)}</td><td>{duration(each.ns / Math.max(1, each.calls))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {one && (
        <div class="columns">
          <Histogram title={`Sizes: ${nameOf(one)}`} buckets={one.bytes_histogram} edge={bytes} />
          <Histogram title={`Durations: ${nameOf(one)}`} buckets={one.ns_histogram} edge={duration} />
        </div>
      )}
      {chosen && (
        <div class="told" aria-live="polite">
          {nameOf(chosen)}: {bytes(chosen.bytes)} in {duration(chosen.ns)}, by thread {chosen.thread} {chosen.thread_name}
          <ol class="stack">{chosen.stack.map((frame, i) => <li key={i}>{frame}</li>)}</ol>
        </div>
      )}
      {shown.length > 0 && (
        <table class="figures events stacked" style={{ "--columns": 4 }}>
          <caption>The last calls{isChosen && " that pass the filters"}; a place opens its stack</caption>
          <thead><tr><th scope="col">at</th><th scope="col" class="name">call</th><th scope="col" class="name">reason</th><th scope="col">bytes</th><th scope="col">took</th><th scope="col">thread</th><th scope="col">class</th><th scope="col"><Word name="place" /></th></tr></thead>
          <tbody>
            {shown.map((event) => (
              <tr key={event.id} class={event === chosen ? "chosen" : ""}>
                <td>{event.time_s.toFixed(6)} s</td><td class="name">{event.call}</td><td class="name">{event.reason}</td><td>{bytes(event.bytes)}{event.refused && " refused"}</td><td>{duration(event.ns)}</td>
                <td>{event.thread}</td><td>{event.size_class ? bytes(event.size_class) : ""}</td>
                <td class="name"><button class="link" onClick={() => setChosen(event === chosen ? null : event)}>{place(event)}</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
