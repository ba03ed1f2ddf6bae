// Functions whose memory grows steadily.
import { useRef } from "preact/hooks";
import type { State, Suspect } from "../answers.ts";
import { api, isReport } from "../api.ts";
import { SavePicture } from "../draw/picture.tsx";
import { snapshot } from "../draw/snapshot.ts";
import { bytes, clock } from "../model/format.ts";
import { rowQuery } from "../model/rowfilters.ts";
import { sparkline } from "../model/series.ts";
import { type Change, useRequest, type ViewState } from "../state.ts";
import { Busy } from "./busy.tsx";
import { FilterBar } from "./filterbar.tsx";
import { Path } from "./path.tsx";
import { SizeRange, ThreadFilter, threadSettings } from "./rowfilters.tsx";
import { filterQuery, StackFilter } from "./stackfilter.tsx";

const WINDOWS: [string, number][] = [
  ["all stored profiles", 0],
  ["last 10 minutes", 600],
  ["last minute", 60],
];

function Spark({ values, times }: { values: number[]; times: number[] }) {
  const points = sparkline(values, times, 120, 28);
  return (
    <svg width="120" height="28" aria-hidden="true">
      <polyline points={points} fill="none" stroke="currentColor" stroke-width="1.5" />
    </svg>
  );
}

// The number of profiles that growth needs, as in tool/web/profiles.go: two saved ones show what grew between them.
const MIN_MOMENTS = 5;
const MIN_SAVED = 2;

/** Why no function is listed. */
export function NoGrowth({
  isFiltered,
  byThread,
  state,
  shown,
}: {
  isFiltered: boolean;
  byThread: boolean; // by other profiles than those that are stored
  state: State;
  shown: ViewState;
}) {
  const { value: moments } = useRequest(() => api.moments(shown.from, shown.until), state.live ? 5000 : 0, [
    state.live,
    shown.from,
    shown.until,
  ]);
  if (!moments) return null;
  if (moments.some((moment) => moment.t === 0))
    return <p class="note">Growth needs the times of the profiles, and one of these files does not tell its time.</p>;
  const isObserved = state.live || !!state.ended || (state.process && !!state.report);
  const [count, needed] = [moments.length, isObserved ? MIN_MOMENTS : MIN_SAVED];
  if (!byThread && count < needed)
    return (
      <p class="note" role="status">
        {state.live && <progress max={needed} value={count} aria-label="profiles" />} Growth needs {needed} profiles of
        one process, and there {count === 1 ? "is 1" : `are ${count}`}
        {state.live ? " so far: one is taken every few seconds." : ": open more of them, or look at a running process."}
      </p>
    );
  return (
    <p class="note">
      {isFiltered ? "Nothing that passes the filters" : "Nothing"} grows with a certainty of 95 %
      {!byThread && ` in ${count} profiles`}. A slow leak needs a longer time to be seen.
    </p>
  );
}

function certainty(one: Suspect): string {
  if (one.sure > 0.999) return "practically certain";
  return `${(100 * one.sure).toFixed(one.sure > 0.99 ? 1 : 0)} %`;
}

export function Growth({ state, shown, change }: { state: State; shown: ViewState; change: Change }) {
  const seconds = shown.last;
  const table = useRef<HTMLTableElement>(null);
  const { value: choices } = useRequest(
    () => (isReport ? Promise.resolve(null) : api.choices()),
    state.live ? 10_000 : 0,
    [state.live],
  );
  const thread = choices && !choices.threads ? "" : shown.thread;
  // A report has the growth of all rows only.
  const query = isReport
    ? filterQuery({ ...shown, module: "" })
    : filterQuery(shown) + rowQuery({ ...shown, labels: "", thread, seconds: 0 });
  const { value, problem } = useRequest(() => api.suspects(seconds, shown.from, shown.until, query), 5000, [
    seconds,
    shown.from,
    shown.until,
    query,
  ]);
  return (
    <section>
      <FilterBar
        shown={shown}
        change={change}
        line={!!value?.length && <SavePicture name="seemalloc.growth" draw={() => snapshot(table.current!)} />}
      >
        {shown.from === 0 && shown.until === 0 && (
          <label>
            window{" "}
            <select value={seconds} onChange={(event) => change({ last: Number(event.currentTarget.value) })}>
              {WINDOWS.map(([name, length]) => (
                <option key={name} value={length}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <StackFilter
          shown={shown}
          change={change}
          problem={problem}
          modules={isReport ? undefined : (choices?.modules ?? [])}
        />
        {!isReport && <SizeRange shown={shown} change={change} />}
        {choices?.threads && (
          <ThreadFilter
            names={choices.threads}
            value={shown.thread}
            problem={problem}
            set={(text) => change(threadSettings(state, text))}
          />
        )}
      </FilterBar>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {value?.length === 0 && <NoGrowth isFiltered={!!query} byThread={!!thread} state={state} shown={shown} />}
      {thread && state.live && (
        <p class="note">
          By thread, from profiles that are taken while this view is open
          {value?.[0] && `, since ${clock(value[0].times[0]!)}`}: the regular profiles have no threads.
        </p>
      )}
      {value?.[0] && !value[0].steady && (
        <p class="note">
          What grew between {value[0].times.length} profiles: too few to distinguish steady growth from a jump.
        </p>
      )}
      {!value && !problem && (
        <p>
          <Busy>Compares the profiles</Busy>
        </p>
      )}
      {value && value.length > 0 && (
        <table ref={table} class="figures stacked" style={{ "--columns": 6 }}>
          <thead>
            <tr>
              <th scope="col">per second</th>
              <th scope="col">holds now</th>
              <th scope="col">± error</th>
              <th scope="col">certainty</th>
              <th scope="col">class</th>
              <th scope="col">over time</th>
              <th scope="col">held by, called by …</th>
            </tr>
          </thead>
          <tbody>
            {value.map((one) => (
              <tr key={one.stack.join()}>
                <td>{bytes(one.bytes_per_s)}</td>
                <td>{bytes(one.now)}</td>
                <td>± {bytes(one.standard_error)}</td>
                <td>{certainty(one)}</td>
                <td>{one.class}</td>
                <td>
                  <Spark values={one.values} times={one.times} />
                </td>
                <td class="name">
                  <Path stack={one.stack} inner={one.inner} change={change} maxNames={8} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="note">
        One cause is one row, with the figures of <code>seemalloc growth</code>. leak-like: none of the accumulating
        blocks is freed; cache-like: some are, but more are allocated.
      </p>
    </section>
  );
}
