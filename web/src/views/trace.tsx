// The live trace: each call into the kernel as it happens, histograms by call and reason, and the stack of each call.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Bucket, Traced, TraceEvent } from "../answers.ts";
import { api, isReport } from "../api.ts";
import { filterError, filterEvents } from "../model/events.ts";
import { bytes, count, duration } from "../model/format.ts";
import type { Change, ViewState } from "../state.ts";
import { FilterBar } from "./filterbar.tsx";
import { ThreadFilter } from "./rowfilters.tsx";
import { StackFilter } from "./stackfilter.tsx";
import { Term } from "./term.tsx";

const POLL_INTERVAL_MS = 500; // ms
const MAX_EVENTS = 1000; // events
const MAX_SHOWN = 100;
const HELPER = "seemalloc";

function topFrame(event: TraceEvent): string {
  if (event.thread_name === HELPER) return "(the allocator's own thread)";
  return event.stack[0] ?? "(no stack)";
}

function Histogram({ title, buckets, edge }: { title: string; buckets: Bucket[]; edge: (value: number) => string }) {
  const most = Math.max(1, ...buckets.map((one) => one.count));
  return (
    <table class="figures histogram">
      <caption>{title}</caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col">below</th>
          <th scope="col">calls</th>
          <th scope="col">calls</th>
        </tr>
      </thead>
      <tbody>
        {buckets.map((one) => (
          <tr key={one.low}>
            <td>{edge(one.low)}</td>
            <td>{edge(one.high)}</td>
            <td>{count(one.count)}</td>
            <td class="meter">
              <span style={{ width: `${(100 * one.count) / most}%`, background: "#2563eb" }} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const nameOf = (one: { call: string; reason: string }) => `${one.call}, ${one.reason}`;

export function Trace({ shown: all, change }: { shown: ViewState; change: Change }) {
  const { focus, ignore, thread } = all;
  const [on, setOn] = useState(!isReport);
  const [trace, setTrace] = useState<Traced | null>(null);
  const [events, setEvents] = useState<TraceEvent[]>([]);
  const [kind, setKind] = useState("");
  const [selected, setSelected] = useState<TraceEvent | null>(null);
  const [problem, setProblem] = useState("");
  const next = useRef(0);
  useEffect(() => {
    if (!on) return;
    let cancelled = false;
    let timer = 0;
    const poll = async () => {
      if (!document.hidden) {
        try {
          const got = await api.trace(next.current);
          if (cancelled) return;
          next.current = got.next;
          setTrace(got);
          if (got.events.length > 0) setEvents((before) => [...before, ...got.events].slice(-MAX_EVENTS));
          setProblem("");
        } catch (failure) {
          if (cancelled) return;
          setProblem(failure instanceof Error ? failure.message : String(failure));
        }
      }
      if (!cancelled) timer = window.setTimeout(poll, POLL_INTERVAL_MS);
    };
    void poll();
    return () => {
      cancelled = true;
      clearTimeout(timer);
    };
  }, [on]);
  const visibleEvents = filterEvents(events, { focus, ignore, thread })
    .filter((event) => !kind || nameOf(event) === kind)
    .slice(-MAX_SHOWN)
    .reverse();
  const wrong = filterError({ focus, ignore, thread });
  const calls = trace?.calls ?? [];
  const isFiltered = !!(focus || ignore || thread);
  if (isReport) return <p class="note">A report has no trace, which shows calls as they happen.</p>;
  const one = calls.find((each) => nameOf(each) === kind) ?? calls[0];
  return (
    <section class="trace" aria-label="Trace">
      <h2>Live trace</h2>
      <div class="bar">
        <button aria-pressed={on} onClick={() => setOn(!on)}>
          {on ? "stop tracing" : "trace"}
        </button>
        <span role="status">
          {on && trace
            ? `Tracing for ${Math.round(trace.elapsed_s)} s`
            : on
              ? "…"
              : "Stopped: the process stops recording after 5 s"}
        </span>
        {trace && (
          <span>
            {count(trace.lost)} <Term name="lost" />, {count(trace.dropped)} not recorded
          </span>
        )}
        <label>
          calls{" "}
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="">all</option>
            {calls.map((each) => (
              <option key={nameOf(each)}>{nameOf(each)}</option>
            ))}
          </select>
        </label>
      </div>
      <FilterBar shown={all} change={change}>
        <StackFilter shown={all} change={change} problem={wrong} modules={undefined} />
        <ThreadFilter
          names={[...new Set(events.map((event) => event.thread_name))].sort()}
          value={thread}
          problem={wrong}
          set={(text) => change({ thread: text })}
        />
      </FilterBar>
      {wrong && (
        <p class="problem" role="alert">
          {wrong}
        </p>
      )}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {trace && calls.length === 0 && (
        <p class="note">
          No call so far: the allocator calls the kernel only when it needs or returns memory. The trace goes on.
        </p>
      )}
      {calls.length > 0 && (
        <table class="figures totals stacked calls" style={{ "--columns": 5 }}>
          <caption>Since the trace began{isFiltered && ", of all threads and functions"}</caption>
          <thead>
            <tr>
              <th scope="col" class="name">
                call
              </th>
              <th scope="col" class="name">
                <Term name="reason" />
              </th>
              <th scope="col">calls</th>
              <th scope="col">bytes</th>
              <th scope="col">refused</th>
              <th scope="col">time</th>
              <th scope="col">per call</th>
            </tr>
          </thead>
          <tbody>
            {calls.map((each) => (
              <tr key={nameOf(each)} class={each === one ? "selected" : ""}>
                <td class="name">
                  <button
                    class="link"
                    aria-pressed={nameOf(each) === kind}
                    onClick={() => setKind(nameOf(each) === kind ? "" : nameOf(each))}
                  >
                    {each.call}
                  </button>
                </td>
                <td class="name">{each.reason}</td>
                <td>{count(each.calls)}</td>
                <td>{bytes(each.bytes)}</td>
                <td>{count(each.refused)}</td>
                <td>{duration(each.ns)}</td>
                <td>{duration(each.ns / Math.max(1, each.calls))}</td>
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
      {selected && (
        <div class="detail" aria-live="polite">
          {nameOf(selected)}: {bytes(selected.bytes)} in {duration(selected.ns)}, by thread {selected.thread}{" "}
          {selected.thread_name}
          <ol class="stack">
            {selected.stack.map((frame, i) => (
              <li key={i}>{frame}</li>
            ))}
          </ol>
        </div>
      )}
      {events.length > 0 && visibleEvents.length === 0 && (
        <p class="note">None of the last {count(events.length)} calls passes the filters: remove some of them.</p>
      )}
      {visibleEvents.length > 0 && (
        <table class="figures events stacked" style={{ "--columns": 4 }}>
          <caption>The last calls{isFiltered && " that pass the filters"}; a place opens its stack</caption>
          <thead>
            <tr>
              <th scope="col">at</th>
              <th scope="col" class="name">
                call
              </th>
              <th scope="col" class="name">
                reason
              </th>
              <th scope="col">bytes</th>
              <th scope="col">took</th>
              <th scope="col">thread</th>
              <th scope="col">class</th>
              <th scope="col">
                <Term name="place" />
              </th>
            </tr>
          </thead>
          <tbody>
            {visibleEvents.map((event) => (
              <tr key={event.id} class={event === selected ? "selected" : ""}>
                <td>{event.time_s.toFixed(6)} s</td>
                <td class="name">{event.call}</td>
                <td class="name">{event.reason}</td>
                <td>
                  {bytes(event.bytes)}
                  {event.refused && " refused"}
                </td>
                <td>{duration(event.ns)}</td>
                <td>{event.thread}</td>
                <td>{event.size_class ? bytes(event.size_class) : ""}</td>
                <td class="name">
                  <button class="link" onClick={() => setSelected(event === selected ? null : event)}>
                    {topFrame(event)}
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
