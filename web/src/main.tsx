// The page: the bar of views, and the selected view.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Point, State } from "./answers.ts";
import { api } from "./api.ts";
import type { Command } from "./model/commands.ts";
import { knownView, missingData } from "./model/views.ts";
import { type Change, useRequest, useViewState, type ViewState } from "./state.ts";
import { Bar } from "./views/bar.tsx";
import { Busy } from "./views/busy.tsx";
import { Doctor } from "./views/doctor.tsx";
import { FilterBar } from "./views/filterbar.tsx";
import { Growth } from "./views/growth.tsx";
import { HeapMap } from "./views/heapmap.tsx";
import { IgnoredFilters } from "./views/ignoredfilters.tsx";
import { KeyList, useKeys } from "./views/keys.tsx";
import { Lifetimes } from "./views/lifetimes.tsx";
import { Overview, usePoints } from "./views/overview.tsx";
import { commandsOf, Palette } from "./views/palette.tsx";
import { Kernel, Settings, Sizes } from "./views/process.tsx";
import { PROFILE_VIEWS, Profile } from "./views/profile.tsx";
import { TimeRange } from "./views/timerange.tsx";

// The views of a time range, which can be selected in a folder.
const TIME_RANGE_VIEWS = new Set(["overview", "growth", ...Object.keys(PROFILE_VIEWS)]);

// The views that ignore all filters: the page only shows what is set.
const NO_FILTER_VIEWS = ["overview", "doctor", "settings"];

const NO_POINTS: Point[] = [];

interface ViewProps {
  state: State;
  points: Point[];
  shown: ViewState;
  change: Change;
}

function View({ state, points, shown, change }: ViewProps) {
  const missing = missingData(shown.view, state);
  if (missing)
    return (
      <section>
        <p class="note">{missing}</p>
      </section>
    );
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
  // Points arrive every second, but only the overview is redrawn for them.
  const viewPoints = knownView(shown.view) === "overview" ? points : NO_POINTS;
  const view = useMemo(
    () => state && <View state={state} points={viewPoints} shown={shown} change={change} />,
    [state, viewPoints, shown, change],
  );
  const [dialog, setDialog] = useState<"" | "palette" | "keys">("");
  const [failure, setFailure] = useState(""); // of the last command
  const showKeys = () => setDialog("keys");
  useKeys({ showPalette: () => setDialog("palette"), showKeys, change });
  const run = async (command: Command) => {
    try {
      setFailure("");
      await command.run();
    } catch (reason) {
      setFailure(`${command.name}: ${reason instanceof Error ? reason.message : String(reason)}`);
    }
  };
  const closeDialog = (closed: typeof dialog) => setDialog((current) => (current === closed ? "" : current));
  if (!state)
    return (
      <main>{problem ? <p role="alert">{problem}. The page keeps trying.</p> : <Busy>Asks the server</Busy>}</main>
    );
  document.title = `${state.title} – seemalloc`;
  return (
    <>
      <Bar state={state} shown={shown} change={change} showKeys={showKeys} />
      {dialog === "palette" && (
        <Palette
          commands={commandsOf(state, shown, change, showKeys)}
          close={() => closeDialog("palette")}
          run={(command) => void run(command)}
        />
      )}
      {dialog === "keys" && <KeyList close={() => closeDialog("keys")} />}
      <main>
        {failure && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
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
        {(NO_FILTER_VIEWS.includes(knownView(shown.view)) || missingData(shown.view, state)) && (
          <FilterBar shown={shown} change={change} />
        )}
        <IgnoredFilters shown={shown} />
        {view}
      </main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);
