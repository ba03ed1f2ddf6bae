// The page: a bar of views, and the selected view.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { useMemo } from "preact/hooks";
import type { Point, State } from "./answers.ts";
import { api } from "./api.ts";
import { moment } from "./model/format.ts";
import { type Change, useRequest, useViewState, type ViewState } from "./state.ts";
import { Growth } from "./views/growth.tsx";
import { HeapMap } from "./views/heapmap.tsx";
import { IgnoredFilters } from "./views/ignoredfilters.tsx";
import { Lifetimes } from "./views/lifetimes.tsx";
import { Overview, usePoints } from "./views/overview.tsx";
import { Doctor, hasMap, Kernel, Settings, Sizes } from "./views/process.tsx";
import { PROFILE_VIEWS, Profile } from "./views/profile.tsx";
import { TimeRange } from "./views/timerange.tsx";

// The views that query a process.
const PROCESS_VIEWS: Record<string, string> = {
  map: "Heap map",
  sizes: "Size classes",
  lifetimes: "Lifetimes",
  kernel: "Kernel",
  doctor: "Doctor",
  settings: "Settings",
};

// The views of a time range, which can be selected in a folder.
const TIME_RANGE_VIEWS = new Set(["overview", "growth", ...Object.keys(PROFILE_VIEWS)]);

const NO_POINTS: Point[] = [];

function Bar({ state, shown, change }: { state: State; shown: ViewState; change: Change }) {
  const views: [string, string][] = [
    ["overview", "Overview"],
    ...Object.entries(PROFILE_VIEWS).map(([id, [name]]): [string, string] => [id, name]),
    ["growth", "Growth"],
    ...(!state.process ? [] : Object.entries(PROCESS_VIEWS).filter(([id]) => id !== "map" || hasMap(state))),
  ];
  return (
    <header>
      <h1>{state.title}</h1>
      <span class={state.live && !state.silent ? "alive" : "ended"} title={state.ended}>
        {state.report
          ? `report of ${moment(state.report)}`
          : state.silent
            ? "silent"
            : state.live
              ? "live"
              : !state.process
                ? "saved"
                : state.stored && !state.ended
                  ? "stored"
                  : "ended"}
      </span>
      <nav aria-label="Views">
        {views.map(([id, name]) => (
          <button key={id} aria-current={shown.view === id ? "page" : undefined} onClick={() => change({ view: id })}>
            {name}
          </button>
        ))}
      </nav>
    </header>
  );
}

interface ViewProps {
  state: State;
  points: Point[];
  shown: ViewState;
  change: Change;
}

function View({ state, points, shown, change }: ViewProps) {
  if (Object.hasOwn(PROFILE_VIEWS, shown.view)) return <Profile state={state} shown={shown} change={change} />;
  if (shown.view === "growth") return <Growth state={state} shown={shown} change={change} />;
  if (shown.view === "sizes") return <Sizes shown={shown} change={change} />;
  if (shown.view === "map") return <HeapMap state={state} shown={shown} change={change} />;
  if (shown.view === "lifetimes") return <Lifetimes state={state} shown={shown} change={change} />;
  if (shown.view === "kernel") return <Kernel live={state.live} shown={shown} change={change} />;
  if (shown.view === "doctor") return <Doctor state={state} change={change} />;
  if (shown.view === "settings") return <Settings state={state} />;
  return <Overview points={points} state={state} shown={shown} change={change} />;
}

function Page() {
  const [shown, change] = useViewState();
  const latest = usePoints();
  const hasRange = shown.from > 0 || shown.until > 0;
  const { value: rangePoints } = useRequest(
    () => (hasRange ? api.between(shown.from, shown.until) : Promise.resolve(null)),
    0,
    [shown.from, shown.until],
  );
  const points = (hasRange && rangePoints) || latest;
  const { value: state, problem } = useRequest(api.state, 2000, []);
  // Points arrive every second, but only the overview (also shown for unknown names) is redrawn for them.
  const viewPoints =
    Object.hasOwn(PROFILE_VIEWS, shown.view) || shown.view === "growth" || Object.hasOwn(PROCESS_VIEWS, shown.view)
      ? NO_POINTS
      : points;
  const view = useMemo(
    () => state && <View state={state} points={viewPoints} shown={shown} change={change} />,
    [state, viewPoints, shown, change],
  );
  if (!state)
    return (
      <main>
        <p role="status">{problem || "…"}</p>
      </main>
    );
  document.title = `${state.title} – seemalloc`;
  return (
    <>
      <Bar state={state} shown={shown} change={change} />
      <main>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {state.ended && (
          <p class="problem" role="status">
            The process no longer answers: {state.ended}. The data collected before is still shown.
          </p>
        )}
        {state.silent && (
          <p class="problem" role="status">
            The process does not answer at present: {state.silent}. The page keeps trying.
          </p>
        )}
        {state.stored?.problem && (
          <p class="problem" role="alert">
            The data is not being stored at present: {state.stored.problem}.
          </p>
        )}
        {state.stored && TIME_RANGE_VIEWS.has(shown.view) && (
          <TimeRange points={latest} shown={shown} change={change} />
        )}
        <IgnoredFilters shown={shown} />
        {view}
      </main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
